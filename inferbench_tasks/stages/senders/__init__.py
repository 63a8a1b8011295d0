"""The load that comes from other hosts than the server's: what runs where, and who asks whom.

    server's host                first client host              second client host, where two share the load
    -------------                -----------------              --------------------------------------------
    serve
      far_watch   <------------- own_side (link, clocks) -----
      far_watch, of the link  <------------------------------------ own_side
                                                                standby
                                                                  far_senders: second_part waits
                                 load
                                   away_load leads
                                   second_client ------------>    second_part: prepare, start, state, close
                                   own senders                    own senders
                                   records of both  <---------    take
    collect
      two_hosts: recordings of all hosts on one clock

Stages are ``standby`` here, and ``serve``, ``load`` and ``collect`` around it. What outlives its stage (``far_watch``,
``far_senders``) is a process of the run, started by ``listener``. ``handles`` is what stages hand on of these hosts,
``messages`` what two that send say to each other.
"""
