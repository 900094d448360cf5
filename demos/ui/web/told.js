/* Told: what the studio says once, in the document.
 * server  its address, for people
 * pages   their names, the form's first
 * form    the defaults of its fields, which of them hold files, and of each choice the values by what is shown for them
 */
export const { server, pages, form } = JSON.parse(document.querySelector('meta[name="vidgen"]').content);
