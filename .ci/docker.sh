# Sourced by .ci/run, as root: a separate Docker engine, without systemd, which does not change the machine's network.

# Start the engine and wait until it answers; exports DOCKER_HOST.
start_docker() {
    docker_home=$(mktemp -d /tmp/msgrlab-docker.XXXXXX)
    docker_bridge=docker_gwbridge # a swarm creates this bridge
    [ ! -e /sys/class/net/$docker_bridge ] || docker_bridge= # it belongs to another engine
    export DOCKER_HOST=unix://$docker_home/socket
    # Networks of clusters are internal: no packet has to be forwarded or translated.
    dockerd --data-root "$docker_home/data" --exec-root "$docker_home/run" --pidfile "$docker_home/pid" \
        --host "$DOCKER_HOST" --bridge none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
        --userland-proxy=false >"$docker_home/log" 2>&1 </dev/null &
    docker_pid=$!
    local tries
    for tries in $(seq 300); do
        docker version >/dev/null 2>&1 && break
        if [ "$tries" = 300 ] || ! kill -0 "$docker_pid" 2>/dev/null; then
            tail -n 20 "$docker_home/log" >&2
            return 1
        fi
        sleep 0.1
    done
    # a swarm uses ports of the machine, which another engine may have taken
    docker swarm init --advertise-addr 127.0.0.1 --listen-addr 127.0.0.1 >/dev/null || echo "no swarm" >&2
}

# Stop the engine and remove all that it created.
stop_docker() {
    [ -n "${docker_pid:-}" ] || return 0
    # bridges outlive the engine; interrupted tests may have left some
    docker ps --all --quiet | xargs --no-run-if-empty docker rm --force --volumes >/dev/null 2>&1 || true
    docker network prune --force >/dev/null 2>&1 || true
    docker swarm leave --force >/dev/null 2>&1 || true
    kill "$docker_pid" 2>/dev/null || true
    wait "$docker_pid" 2>/dev/null || true
    [ -z "$docker_bridge" ] || ip link delete "$docker_bridge" 2>/dev/null || true
    # unmount file systems before their directories are removed
    awk -v home="$docker_home/" 'index($5, home) == 1 { print $5 }' /proc/self/mountinfo | sort -r | xargs -r umount --lazy
    rm -rf "$docker_home"
    unset docker_pid docker_home docker_bridge DOCKER_HOST
}
