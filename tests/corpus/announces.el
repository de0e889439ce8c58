0 1
# evener: {"directed": true, "num_vertices": 1000000000, "first": 0, "weights": null}
