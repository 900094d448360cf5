"""The look of the page: one style sheet, light or dark as the reader's system is."""

from typing import Final

from chaining.drift_report.style import variables

_DARK: Final = (
    "--ink:#ececf1;--faint:#a2a2ae;--rule:#3a3a44;--band:#24242b;--one:#7fb2f0;--two:#f0a06a;"
    "--good:#6fc592;--fair:#dfb04a;--bad:#f0808d;--paper:#18181c;--card:#202026;"
)
LOOK: Final = f"""
:root{{color-scheme:light dark;{variables()}--paper:#fbfbfd;--card:#ffffff}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}}
main{{max-width:1080px;margin:0 auto;padding:28px 20px 60px}}
h1{{font-size:1.35rem;margin:0 0 2px}} h2{{font-size:1.1rem;margin:34px 0 10px}}
p{{margin:6px 0}} .faint{{color:var(--faint)}}
.card{{background:var(--card);border:1px solid var(--rule);border-left:6px solid var(--faint);
border-radius:8px;padding:14px 18px;margin:14px 0}}
.card.pass{{border-left-color:var(--good)}} .card.warn{{border-left-color:var(--fair)}}
.card.fail{{border-left-color:var(--bad)}} .card ul{{margin:6px 0;padding-left:20px}}
.word{{font-weight:650;white-space:nowrap}} .word.pass{{color:var(--good)}}
.word.warn{{color:var(--fair)}} .word.fail{{color:var(--bad)}}
.word.inconclusive{{color:var(--faint)}}
.wide{{overflow-x:auto}}
table{{border-collapse:collapse;width:100%;font-size:.9rem}}
th,td{{text-align:left;padding:5px 14px 5px 0;border-bottom:1px solid var(--rule);
vertical-align:top}}
th{{color:var(--faint);font-weight:600}} td.number,th.number{{text-align:right;
font-variant-numeric:tabular-nums;white-space:nowrap}}
tr.first td{{border-top:2px solid var(--rule)}}
svg{{display:block;width:100%;height:auto;background:var(--card);border:1px solid var(--rule);
border-radius:8px;padding:6px;margin:10px 0}}
img{{display:block;max-width:100%;border-radius:8px}}
details{{margin:10px 0}} summary{{cursor:pointer;color:var(--faint)}}
dl{{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;font-size:.9rem}}
dt{{color:var(--faint)}} dd{{margin:0;overflow-wrap:anywhere}}
.key{{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}}
"""
