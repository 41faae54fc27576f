"""`python -m golden.record`, in tests/: writes the results of all cases as those to keep."""

import json

from golden.results import FILE, machine, results

if __name__ == "__main__":
    found = {"machine": machine(), "cases": dict(results())}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found['cases'])} cases recorded in {FILE.name}")
