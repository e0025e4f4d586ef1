package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// shared is the federation of all tests that do not change it permanently: one cluster that is core and worker.
var shared struct {
	sync.Once
	federation *local.Federation
	err        error
}

func TestMain(m *testing.M) {
	if how := os.Getenv(parentVariable); how != "" {
		runParent(how)
		return
	}
	code := m.Run()
	if shared.federation != nil {
		if err := shared.federation.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "stop the shared federation:", err)
			code = 1
		}
	}
	if left := children(os.Getpid()); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "processes still run after all tests:", left)
		code = 1
	}
	os.Exit(code)
}

// children lists the processes that have this parent.
func children(parent int) []string {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it has exited
		}
		_, after, _ := strings.Cut(string(raw), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			found = append(found, strings.TrimSpace(string(raw)))
		}
	}
	return found
}

func binaries() []string { return filepath.SplitList(os.Getenv(local.BinariesVariable)) }

// single returns a topology of one cluster, named main.
func single(t testing.TB) *federation.Topology {
	t.Helper()
	topology, err := federation.Embedded("single")
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func sharedCluster(t testing.TB) *local.Cluster {
	t.Helper()
	topology := single(t)
	shared.Do(func() {
		shared.federation, shared.err = local.Start(context.Background(), topology,
			local.Options{Binaries: binaries(), Log: logr.Discard()})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return cluster(t, shared.federation, "main")
}

func cluster(t testing.TB, f *local.Federation, name string) *local.Cluster {
	t.Helper()
	c, ok := f.Cluster(name)
	if !ok {
		t.Fatalf("no cluster %s", name)
	}
	return c.(*local.Cluster)
}

func clients(t testing.TB, c federation.Cluster) *kubernetes.Clientset {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return clientset
}

// eventually waits until check returns nil. On a timeout it fails the test with the last error.
func eventually(t testing.TB, description string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not true within a minute; last state: %v", description, last)
		case <-ticker.C:
		}
	}
}
