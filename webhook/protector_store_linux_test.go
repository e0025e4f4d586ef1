package webhook_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/largecluster"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// protectorStore is a core cluster, or a fake of one.
type protectorStore interface {
	name() string
	kubeconfig() string
	// grow creates the protectors of the first applications of the workloads. These have more pods than any storm
	// removes.
	grow(b *testing.B, protectors int)
}

// counted returns a protector of the workloads for which an aggregator has counted plenty of pods in each cell.
func counted(app int, cells ...string) *v1alpha1.PodProtector {
	p := largecluster.Protector(app)
	for _, cell := range cells {
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: cell, Aggregation: v1alpha1.Aggregation{
			TotalReplicas: 1_000_000, AvailableReplicas: 1_000_000, CountedReplicas: 1_000_000, ReadyReplicas: 1_000_000,
			CountedSpec: quota.CountedSpec(&p.Spec), SnapshotVersion: "1", Epoch: 1, LastEventTime: metav1.NowMicro(),
		}})
	}
	quota.Summarize(p)
	return p
}

type fakeStore struct {
	*fakeAPIServer
	file       string
	cells      []string
	protectors int
}

func newFakeStore(b *testing.B, cells ...string) *fakeStore {
	b.Helper()
	s := &fakeStore{fakeAPIServer: newFakeAPIServer(b), cells: cells}
	s.file = filepath.Join(b.TempDir(), "stand-in.kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["core"] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: pemOf(s.Certificate())}
	config.Contexts["core"] = &clientcmdapi.Context{Cluster: "core"}
	config.CurrentContext = "core"
	if err := clientcmd.WriteToFile(*config, s.file); err != nil {
		b.Fatal(err)
	}
	return s
}

func (*fakeStore) name() string         { return "stand-in" }
func (s *fakeStore) kubeconfig() string { return s.file }

func (s *fakeStore) grow(b *testing.B, protectors int) {
	b.Helper()
	for ; s.protectors < protectors; s.protectors++ {
		if err := s.add(counted(s.protectors, s.cells...)); err != nil {
			b.Fatal(err)
		}
	}
}

type realStore struct {
	client     client.Client
	file       string
	protectors int
}

func newRealStore(b *testing.B) *realStore {
	b.Helper()
	s := &realStore{file: testplane.Kubeconfig(b)}
	var err error
	if s.client, err = client.New(testplane.Config(b), client.Options{Scheme: clusters.Scheme()}); err != nil {
		b.Fatal(err)
	}
	for app := range largecluster.Namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: largecluster.Namespace(app)}}
		if err := client.IgnoreAlreadyExists(s.client.Create(b.Context(), namespace)); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func (*realStore) name() string         { return "real" }
func (s *realStore) kubeconfig() string { return s.file }

func (s *realStore) grow(b *testing.B, protectors int) {
	b.Helper()
	running, _ := errgroup.WithContext(b.Context())
	running.SetLimit(32)
	for ; s.protectors < protectors; s.protectors++ {
		p := counted(s.protectors, "worker-0")
		running.Go(func() error { return s.add(b, p) })
	}
	if err := running.Wait(); err != nil {
		b.Fatal(err)
	}
}

// add stores a protector with its status.
func (s *realStore) add(b *testing.B, p *v1alpha1.PodProtector) error {
	status := p.Status.DeepCopy()
	if err := s.client.Create(b.Context(), p); err != nil {
		return err
	}
	p.Status = *status
	return s.client.Status().Update(b.Context(), p)
}
