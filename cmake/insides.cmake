# What the parts below `cluster`, `peer_group` and `engine` are made of is no user's, though the headers say as much of
# it: the servers and the life of a run, what goes over the wire, the transports' insides, ...
set(rubato_insides impl server wire transport/fibers transport/processes transport/threads)
# ... and, of folders that are the users', these.
list(APPEND rubato_insides
  core/assert core/brief_mutex core/check_options core/flat core/large_pages core/mix core/optional_mutex core/portable_math core/raw_array
  core/repeated_row core/row_index core/row_map
  core/short_list core/slab core/start_thread core/table
  net/link net/proof
  peer/hop_core peer/hop_node peer/hop_rules peer/local_parameters peer/mailboxes
  peer/peer_site peer/push_node peer/token_queue peer/update_queue
  protocol/convergence_fit protocol/element_rule protocol/filter_rule protocol/pace_rule
  protocol/rate_search
  run/first_failure run/life run/peer_run run/run_control run/single_machine run/worker_run
  sim/event_queue sim/fibers sim/network
  storage/beside_rows storage/chunk_locks storage/chunk_memory storage/chunk_region storage/coding storage/dense_store storage/element_state
  storage/listed_rows storage/multi_version_store storage/on_demand_host storage/ordered_store
  storage/overlay storage/paged_store storage/shared_update storage/sparse_store storage/store_host storage/stored_chunk
  storage/swap_file storage/table_change storage/table_host storage/table_state storage/touched_rows storage/velocity storage/version_delta
  storage/writable_chunk
  task/parallelism_search task/stage_scheduler task/task_run
  transport/order_box
  testing/actor testing/expectations testing/ledger testing/observed_peers testing/observed_run testing/observer
  testing/peer_observer testing/text
  worker/accumulator worker/argument_check worker/cached_part worker/pacer worker/process_cache worker/replica
  worker/error_feedback worker/missing_rows worker/recent_fetch worker/row_cache worker/rows_read worker/shared_state)
