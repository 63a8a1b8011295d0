"""The load that comes from other hosts than the server's: what runs where, and who asks whom.

    server's host                first client host              each further one, where several share the load
    -------------                -----------------              ----------------------------------------------
    serve
      far_watch   <------------- own_side (link, clocks) -----
      far_watch, of links <--------------------------------------- own_side
                                                                standby, standby_2, ...
                                                                  far_senders: led_part waits
                                 load
                                   away_load leads
                                   together, led_host ------->    led_part: prepare, start, state, close
                                   own senders                    own senders
                                   records of all  <----------    take
                                   trace_sender waits, where a share of the load is traced
    trace
      led_trace     -----------> trace_sender: sends the load again, to a server of the trace
      requests on this host's clock
    collect
      all_hosts: recordings of all hosts on one clock

Stages are ``standby`` here, as often as hosts share the load with the first one, and ``serve``, ``load``, ``trace`` and
``collect`` around it. What outlives its stage (``far_watch``, ``far_senders``, ``trace_sender``) is a process of the
run, started by ``listener``. ``handles`` is what stages hand on of these hosts, ``messages`` what the first one asks
the others, and ``trace`` asks the first one.
"""
