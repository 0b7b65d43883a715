// msgr-anchor: how fast Ceph's own AsyncMessenger moves messages on this machine.
//
// Two processes, one lossless connection on the loopback. The client keeps N messages of a given size unanswered;
// pattern "request" answers each with 64 bytes, "stream" every (N/2)th. Messages are pings with data, whose checksum
// is computed each time. There is no cephx: for mode "secure" both ends are given the same made-up connection secret,
// all that frame encryption needs; v1 messages are not signed.
//
// It speaks what docs/speed.md describes for programs that `msgrlab bench --against` runs: with --control yes, a JSON
// line for each number of messages that it reads. Without, it makes one run of --seconds S.
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstring>
#include <future>
#include <iostream>
#include <map>

#include "auth/AuthClient.h"
#include "auth/AuthServer.h"
#include "common/ceph_argparse.h"
#include "common/common_init.h"
#include "global/global_context.h"
#include "messages/MPing.h"
#include "msg/Messenger.h"

namespace {

constexpr long REPLY_BYTES = 64;
constexpr double WARM_UP_S = 0.05;
std::map<std::string, std::string> options = {
  {"proto", "v2"}, {"mode", "crc"}, {"size", "4096"}, {"in-flight", "32"}, {"pattern", "request"}, {"cpus", ""},
  {"seconds", "1"}, {"control", "no"}, {"threads", "3"},
};

long number(const std::string &name) { return std::stol(options.at(name)); }
bool is(const std::string &name, const char *value) { return options.at(name) == value; }
long per_reply() { return is("pattern", "request") ? 1 : std::max(1L, number("in-flight") / 2); }

double now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}
double cpu_s() {
  rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/// Accepts every peer; the connection's mode is that of the command line.
class OpenAuth : public AuthClient, public AuthServer {
 public:
  using AuthServer::AuthServer;
  using Bytes = ceph::buffer::list;
  using Numbers = std::vector<uint32_t>;
  int get_auth_request(Connection *, AuthConnectionMeta *, uint32_t *method, Numbers *modes, Bytes *) override {
    *method = CEPH_AUTH_NONE;
    *modes = {mode()};
    return 0;
  }
  int handle_auth_reply_more(Connection *, AuthConnectionMeta *, const Bytes &, Bytes *) override { return -EACCES; }
  int handle_auth_done(Connection *, AuthConnectionMeta *, uint64_t, uint32_t, const Bytes &, CryptoKey *,
                       std::string *secret) override {
    if (secret) *secret = made_up_secret();  // v1 has none
    return 0;
  }
  int handle_auth_bad_method(Connection *, AuthConnectionMeta *, uint32_t, int, const Numbers &,
                             const Numbers &) override { return -EACCES; }
  uint32_t pick_con_mode(int, uint32_t, const Numbers &) override { return mode(); }
  int handle_auth_request(Connection *, AuthConnectionMeta *meta, bool, uint32_t, const Bytes &, Bytes *) override {
    meta->connection_secret = made_up_secret();
    return 1;
  }
 private:
  static uint32_t mode() { return is("mode", "secure") ? CEPH_CON_MODE_SECURE : CEPH_CON_MODE_CRC; }
  static std::string made_up_secret() { return std::string(64, 'x'); }
};

/// What both sides have in common. Every message is dispatched at once, on the thread that read it.
class Side : public Dispatcher {
 public:
  Side(CephContext *cct, entity_name_t name, Messenger::Policy policy, long sent, long expected)
      : Dispatcher(cct), messenger(Messenger::create(cct, "async+posix", name, "anchor", getpid())),
        expected(expected), auth(cct) {
    std::string bytes(sent, '\0');
    for (long i = 0; i < sent; ++i) bytes[i] = static_cast<char>(i);
    payload.append(bytes);
    messenger->set_default_policy(policy);
    messenger->set_auth_client(&auth);
    messenger->set_auth_server(&auth);
  }
  /// Call it after bind: connections to a socket that is bound after this are never accepted.
  void start() {
    messenger->add_dispatcher_head(this);
    messenger->start();
  }
  bool ms_can_fast_dispatch_any() const override { return true; }
  bool ms_can_fast_dispatch(const Message *) const override { return true; }
  void ms_fast_dispatch(Message *m) override {
    if (m->get_data().length() != expected) abort();
    seen(m->get_connection());
    m->put();
  }
  bool ms_handle_fast_authentication(Connection *) override { return true; }
  bool ms_handle_reset(Connection *) override { return true; }
  void ms_handle_remote_reset(Connection *) override {}
  bool ms_handle_refused(Connection *) override { abort(); }
  Messenger *const messenger;
 protected:
  virtual void seen(const ConnectionRef &connection) = 0;
  void send(const ConnectionRef &connection) {
    auto *ping = new MPing;
    ping->set_data(payload);
    payload.invalidate_crc();  // else only the first message's checksum would be computed
    connection->send_message(ping);
  }
  const long per = per_reply();
  std::promise<double> done;
 private:
  const unsigned expected;
  OpenAuth auth;
  ceph::buffer::list payload;
};

class Server : public Side {
 public:
  explicit Server(CephContext *cct)
      : Side(cct, entity_name_t::OSD(0), Messenger::Policy::stateful_server(0), REPLY_BYTES, number("size")) {}
  void begin(long count) { missing = count; done = {}; }
  double ended() { return done.get_future().get(); }
 private:
  void seen(const ConnectionRef &connection) override {
    if (++unanswered == per) { unanswered = 0; send(connection); }
    if (--missing == 0) done.set_value(now_s());
  }
  long missing = 0, unanswered = 0;
};

class Client : public Side {
 public:
  explicit Client(CephContext *cct)
      : Side(cct, entity_name_t::CLIENT(1), Messenger::Policy::lossless_client(0), number("size"), REPLY_BYTES) {}
  void connect(const entity_addrvec_t &to) { connection = messenger->connect_to_osd(to); }
  double run(long count) {
    done = {};
    const long burst = std::min(number("in-flight"), count);
    unanswered = count;
    unsent = count - burst;  // from the first answer on, only the reading thread uses these
    for (long i = 0; i < burst; ++i) send(connection);
    return done.get_future().get();
  }
 private:
  void seen(const ConnectionRef &) override {
    unanswered -= per;
    const long more = std::min(per, unsent);
    unsent -= more;
    for (long i = 0; i < more; ++i) send(connection);
    if (unanswered == 0) done.set_value(now_s());
  }
  ConnectionRef connection;
  long unsent = 0, unanswered = 0;
};

struct Run { double time_s, cpu_s; };
// Values on the socket between the two processes, which are forks of one program.
template <typename T> void write_value(int fd, const T &value) { if (write(fd, &value, sizeof value) < 0) _exit(1); }
template <typename T> bool read_value(int fd, T &value) { return read(fd, &value, sizeof value) == sizeof value; }

CephContext *context() {
  auto *cct = common_preinit(CephInitParameters(CEPH_ENTITY_TYPE_CLIENT), CODE_ENVIRONMENT_UTILITY, 0);
  g_ceph_context = cct;
  cct->_conf.set_val_or_die("ms_async_op_threads", options.at("threads"));
  cct->_conf.set_val_or_die("log_to_stderr", "false");
  cct->_conf.apply_changes(nullptr);
  common_init_finish(cct);
  return cct;
}

void pin(bool server) {
  const std::string &cpus = options.at("cpus");
  const size_t comma = cpus.find(',');
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(std::stoi(server && comma != cpus.npos ? cpus.substr(comma + 1) : cpus), &set);
  if (sched_setaffinity(0, sizeof set, &set)) { perror("msgr-anchor: --cpus"); _exit(2); }
}

void serve(int control) {
  pin(true);
  Server server(context());
  entity_addr_t addr;
  addr.parse((options.at("proto") + ":127.0.0.1:0/0").c_str());
  if (server.messenger->bind(addr) < 0) _exit(1);
  server.start();
  char text[128] = {};
  std::stringstream out;
  out << server.messenger->get_myaddrs();
  out.str().copy(text, sizeof text - 1);
  write_value(control, text);
  for (long count; read_value(control, count);) {
    server.begin(count);
    write_value(control, Run{0, cpu_s()});
    const double ended_s = server.ended();
    if (read_value(control, count)) write_value(control, Run{ended_s, cpu_s()});  // the client has all its answers
  }
  _exit(0);
}

/// One run of both sides: its time, and the CPU time of both.
Run run(Client &client, int control, long count) {
  Run before{}, after{};
  write_value(control, count);
  if (!read_value(control, before)) _exit(1);
  const double started_s = now_s(), own_cpu_s = cpu_s();
  const double answered_s = client.run(count);
  write_value(control, count);
  if (!read_value(control, after)) _exit(1);
  const double ended_s = is("pattern", "request") ? answered_s : after.time_s;
  return {ended_s - started_s, cpu_s() - own_cpu_s + after.cpu_s - before.cpu_s};
}

/// A number of messages that the answers cover completely and that fills the window.
long rounded(double count) {
  const long per = per_reply(), least = (number("in-flight") + per - 1) / per;
  return std::max(std::lround(count / per), least) * per;
}

void print(const Run &r, long count) {
  std::cout << "{\"count\": " << count << ", \"elapsed_s\": " << r.time_s << ", \"ops_per_s\": " << count / r.time_s
            << ", \"cpu_us_per_op\": " << r.cpu_s / count * 1e6 << "}" << std::endl;
}

}  // namespace

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = std::string(argv[i]).substr(std::min<size_t>(2, strlen(argv[i])));
    if (!options.count(name) || i + 1 == argc) {
      std::cerr << "usage: msgr-anchor [--OPTION VALUE]...; options and their defaults:\n";
      for (const auto &[known, value] : options) std::cerr << "  --" << known << " " << value << "\n";
      return 2;
    }
    options[name] = argv[i + 1];
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
  const pid_t child = fork();
  if (child == 0) { close(ends[0]); serve(ends[1]); }
  close(ends[1]);
  pin(false);
  Client client(context());
  client.start();
  char text[128];
  entity_addrvec_t to;
  if (!read_value(ends[0], text) || !to.parse(text)) return 1;
  client.connect(to);
  long count = rounded(0);
  Run last = run(client, ends[0], count);  // connects
  if (is("control", "yes")) {
    for (std::string line; std::getline(std::cin, line);) {
      count = rounded(std::stod(line));
      print(run(client, ends[0], count), count);
    }
  } else {
    while ((last = run(client, ends[0], count)).time_s < WARM_UP_S) count = rounded(count * 4.0);
    count = rounded(count * std::stod(options.at("seconds")) / last.time_s);
    print(run(client, ends[0], count), count);
  }
  close(ends[0]);
  waitpid(child, nullptr, 0);
  _exit(0);
}
