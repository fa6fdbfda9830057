"""An untrusted folder, through the SDK: nothing of it runs, the host is told in a message, and a host that vouches
for the folder gets all of it. The folder is `fixtures/one-of-each.json`, as in `crates/cli/tests/trust.rs`."""

import json
import unittest
from pathlib import Path

from harness import Case, text

FIXTURE = json.loads((Path(__file__).parent.parent / "fixtures" / "one-of-each.json").read_text())
SOURCES = ["user", "project", "local"]


class Trust(Case):
    def setUp(self):
        super().setUp()
        (self.root / "outside").mkdir()
        for name, content in FIXTURE["files"].items():
            file = self.cwd / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content if isinstance(content, str) else json.dumps(content))

    def canaries(self):
        return sorted(path.name for path in self.cwd.glob("canary*"))

    def notices(self, seen):
        return [data for data in seen.system("informational") if data.get("tag") == "workspace_untrusted"]

    async def test_an_untrusted_folder_runs_nothing_and_the_host_hears_of_each_item(self):
        seen = (await self.run_query([text("done")], setting_sources=SOURCES)).good()
        self.assertEqual(self.canaries(), [])
        self.assertEqual(seen.init["permissionMode"], "default")
        self.assertEqual(len(self.notices(seen)), 1, str(seen))
        notice = self.notices(seen)[0]
        for kinds in ["withheld", "text_only", "in_force"]:
            told = {entry["kind"]: entry["count"] for entry in notice["workspace_trust"][kinds]}
            self.assertEqual(told, FIXTURE[kinds])
        self.assertTrue(notice["content"].endswith(f"lathe trust {self.cwd}"), notice["content"])

    async def test_a_host_that_vouches_for_the_folder_gets_all_of_it(self):
        env = {"LATHE_TRUST_WORKSPACE": "1"}
        seen = (await self.run_query([text("done")], setting_sources=SOURCES, env=env)).good()
        self.assertEqual(self.notices(seen), [])
        for name in FIXTURE["trusted"]:
            self.assertTrue(self.has(name), name)
        self.assertEqual(seen.init["permissionMode"], "acceptEdits")


if __name__ == "__main__":
    unittest.main()
