package node_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// etcd returns a client of the cluster's etcd.
func (f *fixture) etcd() *clientv3.Client {
	f.Helper()
	read := func(name string) []byte { return []byte(f.on(f.control, "cat /etc/kubernetes/pki/etcd/"+name)) }
	pair, err := tls.X509KeyPair(read("server.crt"), read("server.key"))
	f.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read("ca.crt"))
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://" + f.address(f.control) + ":2379"}, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
		TLS: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12},
	})
	f.must(err)
	f.Cleanup(func() { _ = c.Close() })
	return c
}

// eraseFromEtcd erases all pods of the workloads.
func (f *fixture) eraseFromEtcd() {
	f.Helper()
	etcd := f.etcd()
	ctx, cancel := context.WithTimeout(f.Context(), 30*time.Second)
	defer cancel()
	found, err := etcd.Get(ctx, "/registry/pods/"+shop+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	f.must(err)
	if len(found.Kvs) < replicas+dbs {
		f.Fatalf("etcd has %d pods, want at least %d", len(found.Kvs), replicas+dbs)
	}
	for _, kv := range found.Kvs {
		_, err := etcd.Delete(ctx, string(kv.Key))
		f.must(err)
	}
}

// backUp takes a snapshot of etcd.
func (f *fixture) backUp() {
	f.Helper()
	f.snapshot = filepath.Join(f.TempDir(), "snapshot.db")
	content, err := f.etcd().Snapshot(f.Context())
	f.must(err)
	defer content.Close()
	file, err := os.Create(f.snapshot)
	f.must(err)
	_, err = io.Copy(file, content)
	f.must(err)
	f.must(file.Close())
}

// restoreEtcd restores etcd from the backup, as etcd's documentation says, and waits until the API server answers.
func (f *fixture) restoreEtcd() {
	f.Helper()
	data := filepath.Join(f.TempDir(), "etcd")
	peer := fmt.Sprintf("https://%s:2380", f.address(f.control))
	etcdutl, err := local.BuiltProgram("etcdutl")
	f.must(err)
	out, err := exec.CommandContext(f.Context(), etcdutl, "snapshot", "restore", f.snapshot, "--data-dir", data, "--name", f.control,
		"--initial-cluster", f.control+"="+peer, "--initial-advertise-peer-urls", peer, "--bump-revision", "1000000000", "--mark-compacted").CombinedOutput()
	if err != nil {
		f.Fatalf("etcdutl: %v\n%s", err, out)
	}
	f.on(f.control, "mkdir -p /root/stopped && cd /etc/kubernetes/manifests && mv etcd.yaml kube-apiserver.yaml kube-controller-manager.yaml kube-scheduler.yaml /root/stopped/")
	f.eventually("the control plane is stopped", func() string {
		return f.on(f.control, "cat /proc/[0-9]*/comm 2>/dev/null | grep -E '^(etcd|kube-apiserver|kube-controller|kube-scheduler)' || true")
	})
	f.on(f.control, "rm -rf /var/lib/etcd/member")
	f.docker("cp", filepath.Join(data, "member"), f.control+":/var/lib/etcd/member")
	f.on(f.control, "mv /root/stopped/*.yaml /etc/kubernetes/manifests/")
	// The backup has Leases of processes that ended. Their successors would wait for 15 s until these expire, and write no endpoints meanwhile.
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		f.eventually("the API server answers, and has no Lease "+name, func() string {
			err := f.client.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(f.Context(), name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err.Error()
			}
			return ""
		})
	}
}

// otherPort is the port of the other cluster's API server on the control plane's node.
const otherPort = "7443"

// startOtherCluster starts an empty cluster with the same certificates. It returns a function that stops it.
func (f *fixture) startOtherCluster() (stop func()) {
	f.Helper()
	f.on(f.control, `cd /etc/kubernetes/manifests
sed -e 's/name: etcd$/name: etcd-other/' -e 's/component: etcd$/component: etcd-other/' -e 's/:2379/:3379/g' -e 's/:2380/:3380/g' -e 's/:2381/:3381/g' \
  -e 's#/var/lib/etcd#/var/lib/etcd-other#g' -e 's/port: 2381/port: 3381/; s/hostPort: .*//; s/containerPort: 2381/containerPort: 3381/' etcd.yaml > /root/etcd-other.yaml
sed -e 's/name: kube-apiserver$/name: kube-apiserver-other/' -e 's/component: kube-apiserver$/component: kube-apiserver-other/' -e 's/:2379/:3379/g' \
  -e 's/--secure-port=6443/--secure-port=`+otherPort+`/' -e 's/6443/`+otherPort+`/g' kube-apiserver.yaml > /root/kube-apiserver-other.yaml
mkdir -p /var/lib/etcd-other && chmod 700 /var/lib/etcd-other && cp /root/etcd-other.yaml /root/kube-apiserver-other.yaml /etc/kubernetes/manifests/`)
	f.eventually("the other cluster answers", func() string {
		out, err := f.tryOn(f.Context(), f.control, "kubectl --kubeconfig /etc/kubernetes/super-admin.conf --server https://"+f.control+":"+otherPort+" get namespace kube-system -o name")
		if err != nil || !strings.Contains(out, "kube-system") {
			return fmt.Sprintf("no answer: %v: %s", err, out)
		}
		return ""
	})
	return func() {
		f.on(f.control, "rm /etc/kubernetes/manifests/etcd-other.yaml /etc/kubernetes/manifests/kube-apiserver-other.yaml")
	}
}

// visitOtherCluster returns a disaster that leads the workers to the other cluster for a while, causes a fault there unless that is nil, and
// leads them back.
func visitOtherCluster(fault func(*fixture) (repair func())) func(*fixture) {
	return func(f *fixture) {
		f.Helper()
		var addresses []string
		for _, node := range f.workers {
			addresses = append(addresses, f.address(node))
		}
		workers := strings.Join(addresses, ",")
		lead := func(action string) { // on the control plane, where no reboot of a worker ends it
			f.on(f.control, "iptables -t nat "+action+" PREROUTING -p tcp -s "+workers+" --dport 6443 -j REDIRECT --to-ports "+otherPort)
		}
		since := f.on(f.control, "date +%s")
		lead("-I")
		f.onWorkers("systemctl restart breakwater-node kubelet")
		f.pause(5 * time.Second)
		if fault != nil {
			f.untimed = wereAway
			fault(f)()
		}
		f.pause(15 * time.Second)
		for _, node := range f.workers {
			if out := f.on(node, "journalctl -u breakwater-node --no-pager --since @"+since+" | grep -c 'another cluster' || true"); out == "0" {
				f.Errorf("the guard of %s has not noticed the other cluster", node)
			}
		}
		lead("-D")
		f.onWorkers("systemctl restart breakwater-node")
	}
}

// faultTime is how long the guards are attacked.
const faultTime = time.Minute

// attackGuards kills or freezes the guards again and again.
func (f *fixture) attackGuards(every time.Duration, signalOf func(worker int) string) (repair func()) {
	f.Helper()
	attack := func() {
		for i, node := range f.workers {
			f.on(node, "systemctl kill -s "+signalOf(i)+" breakwater-node")
		}
	}
	attack()
	return func() {
		for began := time.Now(); time.Since(began) < faultTime; {
			f.pause(every)
			attack()
		}
	}
}

// killGuards kills all guards, before they have run for long.
func (f *fixture) killGuards() (repair func()) {
	return f.attackGuards(2*time.Second, func(int) string { return "KILL" })
}

// freezeGuards freezes all guards each time that they run again: the watchdog of systemd ends a frozen guard after 3 seconds.
func (f *fixture) freezeGuards() (repair func()) {
	return f.attackGuards(4*time.Second, func(int) string { return "STOP" })
}

// killAndFreezeGuards kills the guard of one node, and freezes the others.
func (f *fixture) killAndFreezeGuards() (repair func()) {
	return f.attackGuards(4*time.Second, func(worker int) string {
		if worker == 0 {
			return "KILL"
		}
		return "STOP"
	})
}

// stopGuards keeps all guards from running.
func (f *fixture) stopGuards() (repair func()) {
	f.untimed = wereStopped
	f.onWorkers("systemctl stop breakwater-node")
	return func() {
		f.pause(faultTime)
		f.onWorkers("systemctl start breakwater-node")
	}
}

func (f *fixture) restartKubelets() (repair func()) {
	f.onWorkers("systemctl restart kubelet")
	return func() { f.onWorkers("systemctl restart kubelet") }
}

// rebootNode cuts the power of a node, and starts it again.
func (f *fixture) rebootNode() (repair func()) {
	f.rebooted, f.untimed = f.workers[0], wasRebooted
	f.docker("kill", f.rebooted)
	return func() {
		f.docker("start", f.rebooted)
		f.eventually("the node boots", func() string {
			if out, err := f.tryOn(f.Context(), f.rebooted, f.connect()); err != nil {
				return fmt.Sprint(err, out)
			}
			return ""
		})
	}
}
