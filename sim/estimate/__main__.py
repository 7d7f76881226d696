"""``python -m sim.estimate > docs/estimate.md``."""

from sim.estimate.report import page

for line in page():
    print(line)
