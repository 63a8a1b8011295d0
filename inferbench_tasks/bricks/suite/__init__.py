"""A suite: unique bricks of models that are not shown, as a folder that anybody can time, and what came of it.

``manifest.py`` is the folder, ``inspect.py`` looks at a stranger's, ``run.py`` times it, ``answer.py`` is the file with
the times.
"""
