"""What each placement of a graph would cost, by a model and measurements that are kept."""
