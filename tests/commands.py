"""What the command says."""


def assert_one_error(result, *words):
    code, out, err = result
    assert code == 2
    assert out == ""
    assert err.startswith("evener: error: ")
    assert err.endswith(".\n")
    assert err.count("\n") == 1
    for word in words:
        assert word in err
