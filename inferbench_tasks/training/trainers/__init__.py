"""Engines that train: how ranks are started, how they agree on gradients, how a step of theirs goes."""
