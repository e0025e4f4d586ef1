package aggregator

import (
	"bytes"
	"encoding/binary"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/breakwater-k8s/breakwater/e2e/harness/largecluster"
)

// fakeCell replaces a cell's API server. It streams the pods of a crowd, and then as many events as the benchmark
// requests, which a real API server could not produce on a small machine under this load. It uses protobuf, like a real
// one.
type fakeCell struct {
	*testing.B
	*httptest.Server
	// pods returns the pod of each number.
	pods    []func() *corev1.Pod
	version int
	events  chan []byte
	encoder runtime.Encoder
}

// firstVersion is above all versions of a real cell.
const firstVersion = 1_000_000_000

// newFakeCell returns a cell with that many pods of the crowd, and one pod of each further application.
func newFakeCell(b *testing.B, pods, applications int) *fakeCell {
	b.Helper()
	s := &fakeCell{B: b, version: firstVersion, events: make(chan []byte, 1000)}
	for i := range pods {
		s.pods = append(s.pods, func() *corev1.Pod { return largecluster.Received(largecluster.Pod(i), i) })
	}
	for app := largecluster.ReplicaSets; app < applications; app++ {
		s.pods = append(s.pods, func() *corev1.Pod { return largecluster.Received(largecluster.PodOf(app, app), pods+app) })
	}
	s.encoder = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/pods", s.watch)
	s.Server = httptest.NewUnstartedServer(mux)
	s.EnableHTTP2 = true
	s.StartTLS()
	b.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *fakeCell) kubeconfig() string {
	file := filepath.Join(s.TempDir(), "cell.kubeconfig")
	config := clientcmdapi.NewConfig()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	config.Clusters["cell"] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: authority}
	config.Contexts["cell"] = &clientcmdapi.Context{Cluster: "cell"}
	config.CurrentContext = "cell"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		s.Fatal(err)
	}
	return file
}

// watch streams all pods and then the events. It is called once, by the only watcher.
func (s *fakeCell) watch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sendInitialEvents") != "true" {
		http.Error(w, "the stand-in streams lists, and has no history", http.StatusGone)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	for i := range s.pods {
		if _, err := w.Write(s.encodeEvent("ADDED", s.pods[i]())); err != nil {
			return
		}
	}
	mark := &corev1.Pod{}
	mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	if _, err := w.Write(s.encodeEvent("BOOKMARK", mark)); err != nil {
		return
	}
	for http.NewResponseController(w).Flush() == nil {
		select {
		case raw := <-s.events:
			if _, err := w.Write(raw); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// change makes the n-th pod ready or unready.
func (s *fakeCell) change(n int, ready bool) {
	p := s.pods[n]()
	if !ready {
		for i := range p.Status.Conditions {
			if p.Status.Conditions[i].Type == corev1.PodReady {
				p.Status.Conditions[i].Status = corev1.ConditionFalse
			}
		}
	}
	s.events <- s.encodeEvent("MODIFIED", p)
}

// encodeEvent encodes an event for the wire: its length, and the event with the pod in it. Each has its own version.
func (s *fakeCell) encodeEvent(event string, p *corev1.Pod) []byte {
	s.version++
	p.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	p.ResourceVersion = strconv.Itoa(s.version)
	var object bytes.Buffer
	if err := s.encoder.Encode(p, &object); err != nil {
		panic(err) // this is not the benchmark's goroutine
	}
	raw, err := (&metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: object.Bytes()}}).Marshal()
	if err != nil {
		panic(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)
}
