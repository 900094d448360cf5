"""The rooms of the studio: a Gradio form, pages made in the browser, and the gate before them."""
