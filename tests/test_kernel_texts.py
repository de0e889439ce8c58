"""The text of each kernel is the one that was kept: writers change it only where that is meant."""

from kernel_texts import KEPT, sum_of, texts


def test_the_texts_are_those_that_were_kept():
    kept = dict(line.split() for line in KEPT.read_text().splitlines())
    found = {name: sum_of(text) for name, text in texts()}
    changed = [name for name in found | kept if found.get(name) != kept.get(name)]
    assert not changed, f"{len(changed)} changed; compare them as tests/kernel_texts.py says"
