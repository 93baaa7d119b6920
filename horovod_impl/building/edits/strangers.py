"""Edits that keep strangers off the servers that horovodrun starts; request_signature.py says how."""

from horovod_impl.building.edits.edit import DRIVER_SERVICE, GLOO_RUN, HTTP_SERVER, HTTP_STORE, LAUNCH, Edit

HTTP_CLIENT = "horovod/runner/http/http_client.py"
HTTP_REQUEST = "third_party/HTTPRequest/include/HTTPRequest.hpp"
TASK_FUNCTION = "horovod/runner/task_fn.py"
REMOTE = "horovod/runner/util/remote.py"
FIND_PORT = "horovod/runner/util/network.py"
SERVICES = "horovod/runner/common/util/network.py"

STRANGERS = (
    Edit(
        HTTP_SERVER,
        "RequestHandler\n\nfrom horovod.runner.util",
        "RequestHandler\n\nfrom horovod.runner.common.util import request_signature\nfrom horovod.runner.util",
        "the servers ask it whether a request is signed",
    ),
    Edit(HTTP_SERVER, "TIMEOUT = 408\nOK", "TIMEOUT = 408\nFORBIDDEN = 403\nOK", "the answer to an unsigned request"),
    Edit(
        HTTP_SERVER,
        """    timeout = SINGLE_REQUEST_TIMEOUT

    # Override GET handler
""",
        """    timeout = SINGLE_REQUEST_TIMEOUT

    # Requests of every method pass here, before their bodies are read
    def parse_request(self):
        if not super().parse_request():
            return False
        if not request_signature.is_signed(self.command, self.path, self.headers):
            self.send_status_code(FORBIDDEN)
            return False
        return True

    # Override GET handler
""",
        "only the job's own processes may ask the servers anything",
    ),
    Edit(
        HTTP_SERVER,
        """(TIMEOUT)
            return

        self._put_value""",
        """(TIMEOUT)
            return

        if not request_signature.has_body(self.headers, value):
            self.send_status_code(FORBIDDEN)
            return

        self._put_value""",
        "what is stored, and may be unpickled, is what the sender signed",
    ),
    Edit(
        HTTP_SERVER,
        """def start(self, handler_cls=RendezvousHandler):
        self._httpd, port = find_port(
            lambda addr: RendezvousHTTPServer(
                addr, handler_cls, self._verbose))""",
        """def start(self, handler_cls=RendezvousHandler, *, address):
        self._httpd, port = find_port(
            lambda addr: RendezvousHTTPServer(
                addr, handler_cls, self._verbose), address)""",
        "the rendezvous listens at the address that the workers are told, no other",
    ),
    Edit(
        HTTP_SERVER,
        """def start_server(self):
        self.httpd, port = find_port(
            lambda addr: KVStoreHTTPServer(
                addr, KVStoreHandler, self.verbose))""",
        """def start_server(self, address):
        self.httpd, port = find_port(
            lambda addr: KVStoreHTTPServer(
                addr, KVStoreHandler, self.verbose), address)""",
        "the store of functions and results listens at the address that the workers are told, no other",
    ),
    Edit(FIND_PORT, "def find_port(server_factory):", "def find_port(server_factory, address):", "see the next edit"),
    Edit(FIND_PORT, "addr = ('', port)", "addr = (address, port)", "'' is every interface"),
    Edit(
        FIND_PORT,
        """to bind to.')


def get_driver_ip""",
        """to bind to.')


def get_only_address(nics):
    # The one IPv4 address of these interfaces; if they have several, or none is given, '', which is every interface
    addresses = [addr.address for iface, addrs in net_if_addrs().items() if nics and iface in nics
                 for addr in addrs if addr.family == AF_INET]
    return addresses[0] if len(addresses) == 1 else ''


def get_driver_ip""",
        "see the next edits",
    ),
    Edit(
        SERVICES,
        "import find_port\n\n\nclass PingRequest",
        "import find_port, get_only_address\n\n\nclass PingRequest",
        "see the next edit",
    ),
    Edit(
        SERVICES,
        "addr, self._make_handler()))",
        "addr, self._make_handler()), get_only_address(nics))",
        "a service for one interface needs no other; for several it still listens on all, where it checks its own HMAC",
    ),
    Edit(
        GLOO_RUN,
        "global_rendezv_port = rendezvous.start()",
        "global_rendezv_port = rendezvous.start(address=server_ip)",
        "see the edits of the servers",
    ),
    Edit(
        GLOO_RUN,
        """    global_rendezv_port = rendezvous.start(handler)
    driver.wait_for_available_slots(settings.num_proc)

    nics = get_common_interfaces(driver)
    server_ip = network.get_driver_ip(nics)
""",
        """    driver.wait_for_available_slots(settings.num_proc)

    nics = get_common_interfaces(driver)
    server_ip = network.get_driver_ip(nics)
    global_rendezv_port = rendezvous.start(handler, address=server_ip)
""",
        "see the edits of the servers; nobody asks the rendezvous before workers start",
    ),
    Edit(
        GLOO_RUN,
        "run_func_server_port = run_func_server.start_server()",
        "run_func_server_port = run_func_server.start_server(server_ip)",
        "see the edits of the servers",
    ),
    Edit(
        LAUNCH,
        "run_func_server_port = run_func_server.start_server()",
        "run_func_server_port = run_func_server.start_server(driver_ip)",
        "see the edits of the servers",
    ),
    Edit(
        LAUNCH,
        "config_parser, hosts, safe_shell_exec, secret, timeout",
        "config_parser, hosts, request_signature, safe_shell_exec, timeout",
        "see the next edits",
    ),
    Edit(
        LAUNCH,
        "binding_args=args.binding_args,\n" + 37 * " " + "key=secret.make_secret_key(),",
        "binding_args=args.binding_args,\n" + 37 * " " + "key=request_signature.make_job_key(),",
        "workers inherit the key in their environment",
    ),
    Edit(
        LAUNCH,
        "extra_mpi_args=args.mpi_args,\n" + 48 * " " + "key=secret.make_secret_key(),",
        "extra_mpi_args=args.mpi_args,\n" + 48 * " " + "key=request_signature.make_job_key(),",
        "workers of an elastic job inherit the key in their environment",
    ),
    Edit(
        HTTP_CLIENT,
        "import urlopen\n\nfrom horovod.runner.common.util import codec\n",
        "import urlopen\n\nfrom horovod.runner.common.util import codec, request_signature\n",
        "see the next edits",
    ),
    Edit(
        HTTP_CLIENT,
        "req = Request(url)\n        resp",
        "req = Request(url)\n        request_signature.sign(req)\n        resp",
        "the key-value store answers signed requests only",
    ),
    Edit(
        HTTP_CLIENT,
        "# for urllib2 compatibility\n        urlopen",
        "# for urllib2 compatibility\n        request_signature.sign(req)\n        urlopen",
        "the servers take signed values only",
    ),
    Edit(
        HTTP_REQUEST,
        "#include <cstdint>\n\n#ifdef",
        '#include <cstdint>\n\n#include "request_signature.h"\n\n#ifdef',
        "see the next edit",
    ),
    Edit(
        HTTP_REQUEST,
        """domain + "\\r\\n";
            requestData += "Content""",
        """domain + "\\r\\n";
            requestData += request_signature::header_lines(method, path, body);
            requestData += "Content""",
        "the rendezvous answers signed requests only",
    ),
    Edit(
        HTTP_STORE,
        """const std::string& body = "") {
  for (""",
        """const std::string& body = "") {
  // Without a key this throws here, once, rather than in each of the tries.
  request_signature::job_key();
  std::string reason;
  for (""",
        "a worker that has no key ends and says why",
    ),
    Edit(
        REMOTE,
        "import env as env_util\n",
        "import env as env_util, request_signature\n",
        "see the next edit",
    ),
    Edit(
        REMOTE,
        "return f'{SSH_COMMAND_PREFIX} {host} {port_arg} {identity_file_arg} {timeout_arg} {local_command}'",
        "return f'{request_signature.SEND_KEY} {SSH_COMMAND_PREFIX} {host} {port_arg} {identity_file_arg} '"
        " \\\n           f'{timeout_arg} {request_signature.RECEIVE_KEY} {local_command}'",
        "workers on other machines get the key by ssh's standard input, which only ssh reads",
    ),
    Edit(
        DRIVER_SERVICE,
        "import codec, safe_shell_exec\n",
        "import codec, request_signature, safe_shell_exec\n",
        "see the next edit",
    ),
    Edit(
        DRIVER_SERVICE,
        "settings=codec.dumps_base64(settings))",
        "settings=codec.dumps_base64(request_signature.without_key(settings)))",
        "the settings are put on a command line, which every user of the machine can read",
    ),
    Edit(
        TASK_FUNCTION,
        "import codec, host_hash\n",
        "import codec, host_hash, request_signature\n",
        "see the next edit",
    ),
    Edit(
        TASK_FUNCTION,
        "settings = codec.loads_base64(sys.argv[4])\n\n",
        "settings = codec.loads_base64(sys.argv[4])\n    settings.key = request_signature.job_key()\n\n",
        "the settings come without the key, which is in the environment",
    ),
    Edit(
        "horovod/common/gloo/gloo_context.cc",
        """  device_attr.iface = gloo_iface_;
  device_attr.ai_family = AF_UNSPEC;
  auto dev = CreateDevice(device_attr);

  global_ctx = global_context.ctx;""",
        """  gloo_iface_ = global_context.gloo_iface_;
  device_attr.iface = global_context.gloo_iface_;
  device_attr.ai_family = AF_UNSPEC;
  auto dev = CreateDevice(device_attr);

  global_ctx = global_context.ctx;""",
        "each process set, that of all workers too, would use the address of the host's name, whatever interface was "
        "chosen",
    ),
)
