"""Every line of README is known to the test that runs them."""

import pathlib
import re
import sys
import unittest

sys.dont_write_bytecode = True

from lines import blocks, role_of  # noqa: E402

README = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text()


class ReadmeTest(unittest.TestCase):
    """No line of README goes by without being run."""

    def test_every_line_has_a_role(self):
        found = blocks(README)
        self.assertGreater(len(found), 5)
        self.assertEqual([line for block in found for line in block if role_of(line) is None], [])

    def test_no_command_hides_in_a_sentence(self):
        text = re.sub(r"^```\n.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
        self.assertEqual(re.findall(r"`build/[^`]*`", text), [])

    def test_unknown_line_has_none(self):
        self.assertIsNone(role_of("build/tools/mprdma run -- some_program"))
        self.assertIsNone(role_of("build/tools/mprdma fabric set path2 sideways"))

    def test_blocks(self):
        text = "a\n```\none  # why\ntwo \\\n    three\n```\n`no`\n```\nfour\n```\n"
        self.assertEqual(blocks(text), [["one  # why", "two three"], ["four"]])


if __name__ == "__main__":
    unittest.main()
