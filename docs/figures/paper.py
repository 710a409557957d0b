"""Draw the paper's figures from the results that come with amalt, and write the table of ratios.

``python docs/figures/paper.py`` is part of ``make figures``.
"""

from pathlib import Path

from amalt.bench.paper import figures, results
from amalt.bench.paper.design import CHAINS, COLUMNS, MODELS

HERE = Path(__file__).parent
PAGE = HERE.parent / "explanation" / "paper.md"
BEGIN, END = "<!-- ratios: written by docs/figures/paper.py -->", "<!-- end of ratios -->"


def ratios(cells: list[dict]) -> str:
    """Return the table of ESS per gradient over the paper's, with the multi-chain estimator's."""
    found = {(cell["model"], cell["method"]): cell for cell in cells}
    lines = [
        "| | " + " | ".join(column.title for column in COLUMNS.values()) + " |",
        "|---|" + "---|" * len(COLUMNS),
    ]
    for model in MODELS:
        row = [found.get((model, method)) for method in COLUMNS]
        chains = {cell["chains"] for cell in row if cell} - {CHAINS}
        title = MODELS[model].title + (f" ({min(chains)} chains)" if chains else "")
        says = [f"{cell['ess_per_grad_ratio']:.2f}" if cell else "–" for cell in row]
        lines.append(f"| {title} | " + " | ".join(says) + " |")
        both = [
            f"{cell['multi_chain_ess_per_grad'] / cell['paper_ess_per_grad']:.2g}" if cell else "–"
            for cell in row
        ]
        lines.append("| *multi-chain* | " + " | ".join(f"*{say}*" for say in both) + " |")
    return "\n".join(lines)


def page_with(table: str) -> str:
    """Return the page with its table replaced."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Draw and write."""
    out = results.shipped()
    cells = results.cells(results.load_results(out))
    figures.draw(cells, out, HERE)
    PAGE.write_text(page_with(ratios(cells)), encoding="utf-8")


if __name__ == "__main__":
    main()
