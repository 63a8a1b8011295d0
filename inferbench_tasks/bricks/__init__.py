"""DLBricks (Li, Xiong, Dakkak, Hwu): a model as bricks, sequences of layers that run by themselves and recur.

    graph = layer_graph(path, feeds, "runtime", folder)   views.py, layers.py
    bricks = cut(graph, granularity)                      sequences.py, brick.py
    bricks[0].key, bricks[0].identity                     keys.py
    network(graph, bricks[0])                             networks.py

Pure: it knows neither Airflow, PerfDB, stages nor servers. Graphs are read and cut by ``onnx-ir``.
"""
