"""Edits that raise an error with a reason where a process ended without one, or hung."""

from horovod_impl.building.edits.edit import HTTP_SERVER, HTTP_STORE, Edit

GLOBAL_STATE = "horovod/common/global_state.h"
OPERATIONS = "horovod/common/operations.cc"
TENSOR_QUEUE = "horovod/common/tensor_queue"
PROCESS_SET = "horovod/common/process_set.cc"
BASICS = "horovod/common/basics.py"
GLOO_TRANSPORT = "third_party/gloo/gloo/transport/tcp"

FAILURES = (
    Edit(
        GLOBAL_STATE,
        """initialization_failed{false};

  // Pointer""",
        """initialization_failed{false};

  // Why the background thread ended, where an exception ended it. To be read only where `failed` is set.
  std::string failure;
  std::atomic_bool failed{false};

  void Fail(const std::exception& ex) {
    if (!failed) {
      failure = ex.what();
      failed = true;
    }
  }

  // What operations end with that the background thread no longer performs.
  Status ShutDownError() const {
    return failed ? Status::UnknownError("Horovod's background thread ended: " + failure) : SHUT_DOWN_ERROR;
  }

  // Pointer""",
        "see the next edits",
    ),
    Edit(
        OPERATIONS,
        "SHUT_DOWN_ERROR",
        "horovod_global.ShutDownError()",
        "operations that are pending, or come later, end with what ended the thread",
        times=9,
    ),
    Edit(
        OPERATIONS,
        """  } catch (const std::exception& ex) {
    LOG(ERROR, horovod_global.global_controller->GetRank())
        << "Horovod background loop""",
        """  } catch (const std::exception& ex) {
    state.Fail(ex);
    LOG(ERROR, horovod_global.global_controller->GetRank())
        << "Horovod background loop""",
        "see the edit before",
    ),
    Edit(
        OPERATIONS,
        """ex.what();
    state.initialization_failed = true;""",
        """ex.what();
    state.Fail(ex);
    state.initialization_failed = true;""",
        "see the edits before",
    ),
    Edit(
        OPERATIONS,
        """  return !should_shutdown;
}

// Start""",
        """  return !should_shutdown;
}

// What BackgroundThreadLoop throws, most of it from Gloo while it connects, would end the process.
void RunBackgroundThread(HorovodGlobalState& state) {
  try {
    BackgroundThreadLoop(state);
  } catch (const std::exception& ex) {
    state.Fail(ex);
    state.shut_down = true;
    for (auto id : state.process_set_table.Ids()) {
      state.process_set_table.Get(id).Finalize(state.ShutDownError());
    }
#if HAVE_GLOO
    global_gloo_context.Finalize();
#endif
    state.initialization_failed = !state.initialization_done;
  }
}

// Start""",
        "a worker that can't connect says why instead of ending with SIGABRT",
    ),
    Edit(
        OPERATIONS,
        "std::thread(BackgroundThreadLoop, std::ref",
        "std::thread(RunBackgroundThread, std::ref",
        "see the edit before",
    ),
    Edit(
        OPERATIONS,
        """.test_and_set()) {
    horovod_global.control_operation""",
        """.test_and_set()) {
    horovod_global.failed = false;
    horovod_global.initialization_failed = false;
    horovod_global.control_operation""",
        "who has failed to initialize Horovod may shut it down and try again",
    ),
    Edit(
        OPERATIONS,
        """  return InitializeHorovodOnce(
      ranks_vec, BuildProcessSetRanksVectors(
                     process_set_ranks, process_set_sizes, num_process_sets));
}
""",
        """  try {
    return InitializeHorovodOnce(ranks_vec, BuildProcessSetRanksVectors(process_set_ranks, process_set_sizes,
                                                                        num_process_sets));
  } catch (const std::exception& ex) {
    // The environment names something that isn't there.
    horovod_global.Fail(ex);
    horovod_global.initialize_flag.clear();
    return false;
  }
}

// Why Horovod could not be initialized, or its background thread ended; "" where neither is so.
const char* horovod_initialization_error() {
  return horovod_global.failed ? horovod_global.failure.c_str() : "";
}
""",
        "see the edits before",
    ),
    Edit(
        BASICS,
        """            raise ValueError(
                "Horovod initialization failed. Please check log messages above for a more descriptive error.")
""",
        """            reason = self.initialization_error() or "the log messages above may tell more"
            raise ValueError(f"Horovod initialization failed: {reason}")
""",
        "see the edits before",
    ),
    Edit(
        BASICS,
        """duplicate: {ps}")

    def shutdown(self):""",
        """duplicate: {ps}")

    def initialization_error(self):
        \"""Returns why `init` failed, or why Horovod's background thread ended since; '' where neither is so.\"""
        self.MPI_LIB_CTYPES.horovod_initialization_error.restype = ctypes.c_char_p
        return self.MPI_LIB_CTYPES.horovod_initialization_error().decode(errors="replace")

    def shutdown(self):""",
        "see the edits before",
    ),
    Edit(
        OPERATIONS,
        """  state.shut_down = true;

  // For each""",
        """  state.shut_down = true;

  // Before the table of process sets is locked, which a thread that holds Python's lock may wait for.
  for (auto id : state.process_set_table.Ids()) {
    state.process_set_table.Get(id).tensor_queue.FinalizeTensorQueue(state.ShutDownError());
  }

  // For each""",
        "where a worker is lost another would sometimes hang: what ends pending operations may take Python's lock",
    ),
    Edit(
        f"{TENSOR_QUEUE}.cc",
        """  std::lock_guard<std::mutex> guard(mutex_);
  for (auto& e : tensor_table_) {
    e.second.FinishWithCallback(status);
  }
  tensor_table_.clear();
  while (!message_queue_.empty()) {
    message_queue_.pop();
  }
}
""",
        """  decltype(tensor_table_) ended;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    end_ = status;
    ended.swap(tensor_table_);
    message_queue_ = std::queue<Request>();
  }
  for (auto& e : ended) {
    e.second.FinishWithCallback(status);
  }
}

void TensorQueue::Reopen() {
  std::lock_guard<std::mutex> guard(mutex_);
  end_ = Status::OK();
}
""",
        "see the edit before: nor may the queue be locked meanwhile",
    ),
    Edit(
        f"{TENSOR_QUEUE}.h",
        """FinalizeTensorQueue(const Status& status);

  int64_t""",
        """FinalizeTensorQueue(const Status& status);

  // For when Horovod is initialized again.
  void Reopen();

  int64_t""",
        "see the next edits",
    ),
    Edit(
        f"{TENSOR_QUEUE}.h",
        "  mutable std::mutex mutex_;\n};",
        "  mutable std::mutex mutex_;\n\n  // What ended the queue.\n  Status end_;\n};",
        "see the next edits",
    ),
    Edit(
        f"{TENSOR_QUEUE}.cc",
        "guard(mutex_);\n  if (tensor_table_.find(e.tensor_name)",
        "guard(mutex_);\n  if (!end_.ok()) {\n    return end_;\n  }\n  if (tensor_table_.find(e.tensor_name)",
        "an operation that came just after the pending ones were ended would wait for ever",
    ),
    Edit(
        f"{TENSOR_QUEUE}.cc",
        "guard(mutex_);\n\n  for (std::size_t i = 0;",
        "guard(mutex_);\n  if (!end_.ok()) {\n    return end_;\n  }\n\n  for (std::size_t i = 0;",
        "see the edit before",
    ),
    Edit(
        PROCESS_SET,
        "  }\n  initialization_done = true;\n",
        "  }\n  tensor_queue.Reopen();\n  initialization_done = true;\n",
        "see the edits before",
        times=2,
    ),
    Edit(
        PROCESS_SET,
        """    while (true) {
      InitializeRegisteredAndRemoveMarkedIfReady_(context, status);
      if""",
        """    while (true) {
      try {
        InitializeRegisteredAndRemoveMarkedIfReady_(context, status);
      } catch (const std::exception&) {
        // Whom this would wait for is gone.
        Get(id).Finalize(status);
        DeregisterProcessSet(id);
        id_to_be_removed_ = NO_PENDING_REMOVAL;
        break;
      }
      if""",
        "where a worker is lost the others' operations on process sets end, with the reason, and not their processes",
    ),
    Edit(
        HTTP_STORE,
        '        LOG(WARNING) << "HTTP response not OK, got " << response.status;',
        '        reason = "it answers with HTTP status " + std::to_string(response.status);',
        "see the edit after the next one",
    ),
    Edit(HTTP_STORE, 'LOG(DEBUG) << "Exception: " << e.what();', "reason = e.what();", "see the next edit"),
    Edit(
        HTTP_STORE,
        """  LOG(ERROR) << "HTTP GET request failed too many times, aborting. See "
                "exception message above.";
  throw std::runtime_error("HTTP request failed.");
""",
        """  throw std::runtime_error("horovodrun's rendezvous at " + url_prefix_ + " can't be reached: " + reason);
""",
        "the reason would be in the log of debugging alone",
    ),
    Edit(
        HTTP_SERVER,
        "self.server.finished_list.clear()",
        "self.server.finished_list[scope].clear()",
        "the rendezvous would forget who is done elsewhere, and tell workers that initialize again old addresses",
    ),
    Edit(
        f"{GLOO_TRANSPORT}/pair.cc",
        'GLOO_ERROR_MSG("connect: ", ',
        'GLOO_ERROR_MSG("connect ", peer_.str(), ": ", ',
        "whom a worker can't reach is named, here as elsewhere",
    ),
    Edit(
        f"{GLOO_TRANSPORT}/address.cc",
        "port = in->sin_port;",
        "port = ntohs(in->sin_port);",
        "the errors that name an address had the bytes of its port in the network's order",
    ),
    Edit(
        f"{GLOO_TRANSPORT}/address.cc",
        "port = in6->sin6_port;",
        "port = ntohs(in6->sin6_port);",
        "see the edit before",
    ),
    Edit(
        f"{GLOO_TRANSPORT}/device.cc",
        "auto rv = getaddrinfo(attr.hostname.data(), nullptr, &hints, &result);\n  GLOO_ENFORCE_NE(rv, -1);",
        """auto rv = getaddrinfo(attr.hostname.data(), nullptr, &hints, &result);
  GLOO_ENFORCE(rv == 0, "Unable to find address for ", attr.hostname, ": ", gai_strerror(rv));""",
        "errors are other numbers than -1, after which this would read an address that was never found",
    ),
)
