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
	f.eventually("the API server answers", func() string {
		if _, err := f.client.Discovery().ServerVersion(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// visitOtherCluster starts an empty cluster with the same certificates, leads the workers to it for a while, and then back.
func (f *fixture) visitOtherCluster() {
	f.Helper()
	f.on(f.control, `cd /etc/kubernetes/manifests
sed -e 's/name: etcd$/name: etcd-other/' -e 's/component: etcd$/component: etcd-other/' -e 's/:2379/:3379/g' -e 's/:2380/:3380/g' -e 's/:2381/:3381/g' \
  -e 's#/var/lib/etcd#/var/lib/etcd-other#g' -e 's/port: 2381/port: 3381/; s/hostPort: .*//; s/containerPort: 2381/containerPort: 3381/' etcd.yaml > /root/etcd-other.yaml
sed -e 's/name: kube-apiserver$/name: kube-apiserver-other/' -e 's/component: kube-apiserver$/component: kube-apiserver-other/' -e 's/:2379/:3379/g' \
  -e 's/--secure-port=6443/--secure-port=7443/' -e 's/6443/7443/g' kube-apiserver.yaml > /root/kube-apiserver-other.yaml
mkdir -p /var/lib/etcd-other && chmod 700 /var/lib/etcd-other && cp /root/etcd-other.yaml /root/kube-apiserver-other.yaml /etc/kubernetes/manifests/`)
	f.eventually("the other cluster answers", func() string {
		out, err := f.tryOn(f.Context(), f.control, "kubectl --kubeconfig /etc/kubernetes/super-admin.conf --server https://"+f.control+":7443 get namespace kube-system -o name")
		if err != nil || !strings.Contains(out, "kube-system") {
			return fmt.Sprintf("no answer: %v: %s", err, out)
		}
		return ""
	})
	lead := "iptables -t nat %s OUTPUT -p tcp -d " + f.address(f.control) + " --dport 6443 -j DNAT --to-destination " + f.address(f.control) + ":7443"
	f.onWorkers(fmt.Sprintf(lead, "-A") + "; systemctl restart breakwater-node kubelet")
	f.pause(30 * time.Second)
	for _, node := range f.workers {
		if out := f.on(node, "journalctl -u breakwater-node --no-pager | grep -c 'another cluster' || true"); out == "0" {
			f.Errorf("the guard of %s has not noticed the other cluster", node)
		}
	}
	f.onWorkers(fmt.Sprintf(lead, "-D") + "; systemctl restart breakwater-node")
	f.on(f.control, "rm /etc/kubernetes/manifests/etcd-other.yaml /etc/kubernetes/manifests/kube-apiserver-other.yaml")
}

// killGuards kills the guards several times.
func (f *fixture) killGuards() (repair func()) {
	const kill = "systemctl kill -s KILL breakwater-node"
	f.onWorkers(kill)
	return func() {
		for range 3 {
			f.pause(time.Second)
			f.onWorkers(kill)
		}
	}
}

// freezeGuards stops the guards' processes without ending them.
func (f *fixture) freezeGuards() (repair func()) {
	f.onWorkers("systemctl kill -s STOP breakwater-node")
	return func() { f.pause(60 * time.Second) }
}

func (f *fixture) restartKubelets() (repair func()) {
	f.onWorkers("systemctl restart kubelet")
	return func() { f.onWorkers("systemctl restart kubelet") }
}
