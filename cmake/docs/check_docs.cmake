# Runs doxygen, and fails on its warnings, but for those about members that a convention covers (see reference.md,
# "What is not said twice"): they are what a concept asks of a class, and documented there, or what every C++
# programmer knows.
if(GONE)
  message(FATAL_ERROR "cmake/docs/CMakeLists.txt leaves out headers that there are not: ${GONE}")
endif()
file(REMOVE_RECURSE ${OUTPUT}/html)
execute_process(COMMAND ${DOXYGEN} ${OUTPUT}/Doxyfile COMMAND_ERROR_IS_FATAL ANY)
# Comments link to them as files of the project do.
file(COPY ${EXAMPLES} DESTINATION ${OUTPUT}/html FILES_MATCHING PATTERN "*.cpp" PATTERN "*.md")

# What the concepts of a folder ask for.
set(conventions
  "/protocol/.*Member (admission|visibility|merge|pace|name)\\("
  "/protocol/.*Member (bound|need|cache_need|horizon|weight|decay|map|share|expire|version_after|due|follow|spent)\\("
  "/protocol/.*Member (join|leave|commit|observe|tick|next_tick|next_sample|changes|make_conductor|check)\\("
  "/protocol/.*Member (takes_part|round_size|initial|step|heeds|extra|limit|filter|takes|send|measure|decide|reads|renews)\\("
  "/protocol/.*Member (holds_back|synchronized|exact|order_type|late|by_round|slots|lazy|copy|sums|differences) "
  "/peer/.*Member (gather|reduce|gap|jump|order|make_node|needed|oldest|weight|gap_max|check|start|apply|out|in|text)\\("
  "/peer/.*Member (kept|bounds_gap|outlives_loss|acks|tokens|jumps|state) "
  "/peer/.*Compound .*::state"
  "/(partition|testing)/.*Member (server_of|digest|run_end)\\("
  "/storage/.*Member (assign|fold|read|copy|collect|bytes|chunks|chunk|add|add_shares|versions|live)\\("
  "/storage/.*Member (value_type|merge_type|store|bounded|concurrent|merge|partition|filter|options) "
  "/net/(network|asio_network|mpi_network).hpp:.* Member (dial|listen|at|now|run_one|poll|interrupt|reached|random|process|threads)\\("
  "/net/collective.hpp:.* Member (sum|result|leave|is_at_rest)\\("
  "/transport/.*Member (open|open_peers|nodes)\\("
  "/peer/peer_(node|endpoint).hpp:.* of class rubato::peer_(node|endpoint)"
  "/worker/endpoint.hpp:.* of class rubato::endpoint(_decorator)?"
  "/transport/.*Member (runtime_type|peer_runtime_type|tasks) "
  "/model/.*Member (value|slope|operator\\(\\))\\("
  "/model/.*Member takes_residual ")
# How a body is called, and what a distribution does.
list(APPEND conventions
  "/algorithm/.*Member operator\\(\\)\\(Worker &" "/sim/distribution.hpp:.*Member draw\\(")
# What everybody knows.
list(APPEND conventions
  "Member [a-z_]+\\([a-z_<> ]+ (const &|&&)\\)( noexcept)?=default "
  "Member operator(==|<=>|=|\\*|\\+\\+|->)\\(" "Member operator bool\\("
  "Member (begin|end|size|empty|data)\\(\\)"
  "Member (value_type|iterator|difference_type|reference|pointer|iterator_category|iterator_concept) ")

file(STRINGS ${OUTPUT}/warnings.txt warnings)
set(left "")
foreach(warning IN LISTS warnings)
  set(covered FALSE)
  foreach(convention IN LISTS conventions)
    if(warning MATCHES "${convention}.* is not documented")
      set(covered TRUE)
      break()
    endif()
  endforeach()
  if(NOT covered)
    list(APPEND left "${warning}")
  endif()
endforeach()

# A table without a heading comes out as text.
file(GLOB pages ${OUTPUT}/html/*.html)
list(FILTER pages EXCLUDE REGEX "_source[.]html$")
foreach(page IN LISTS pages)
  file(STRINGS ${page} torn REGEX "^(<p[^>]*>|<dd>)?[|] .*[|]( <br />|</p>|</dd>)?$")
  if(torn)
    cmake_path(GET page FILENAME page)
    list(APPEND left "${page}: warning: a table without a heading: ${torn}")
  endif()
endforeach()

if(left)
  list(REMOVE_DUPLICATES left)
  list(LENGTH left count)
  list(JOIN left "\n" left)
  message("${left}")
  message(FATAL_ERROR "doxygen warns of ${count} things")
endif()
