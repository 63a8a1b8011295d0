"""Replicas on hosts of their own (``serve.spread: own_hosts``): what runs where, and who asks whom.

    the first one's host             each other replica's host
    --------------------             -------------------------
    serve
      the first server, on loopback
                                     replica, replica_2, ...
                                       a server on the host's address, by the run's secret
                                       beside: watches it, tells of its host's clock
    balance
      nginx before all of them --->    the servers
    load
      senders ---> nginx
      following ------------------>    beside (link, clocks, begin, state, end, recording)
    collect
      recordings: those of all hosts on one clock, sums over them

The host's worker ends what stands on it once the job has given its lease back, or lost it, as it does with whatever a
job leaves; ``release`` needs no way there. ``handles`` is what stages hand on of the other hosts.
"""
