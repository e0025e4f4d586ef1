package hostile_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
)

// hostileServer is the API server of a cluster that an attacker controls. It answers the request that identifies the cluster, and attack
// answers all other requests.
type hostileServer struct {
	attack atomic.Pointer[func(w io.Writer, r *http.Request)]
	// requests and sentBytes count the requests and the bytes of an attack.
	requests, sentBytes atomic.Int64
}

// maxSentBytes bounds what the server sends in an attack, in bytes.
const maxSentBytes = 4 << 30

func (s *hostileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/api/v1/namespaces/kube-system" {
		fmt.Fprint(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"hostile"}}`)
		return
	}
	s.requests.Add(1)
	(*s.attack.Load())(limitedWriter{w, &s.sentBytes}, r)
}

// limitedWriter counts the bytes written, and fails after maxSentBytes.
type limitedWriter struct {
	io.Writer
	sent *atomic.Int64
}

func (w limitedWriter) Write(p []byte) (int, error) {
	if w.sent.Add(int64(len(p))) > maxSentBytes {
		return 0, io.ErrShortWrite
	}
	return w.Writer.Write(p)
}

func podJSON(i int, label string) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p-%d","namespace":"hostile","uid":"u-%d","resourceVersion":"%d","labels":{"app":"web","l":%q}}}`, i, i, i+1, label)
}

// endlessList answers any list with a list of pods without an end.
func endlessList(w io.Writer, r *http.Request) {
	if isWatch(r) {
		return // like an API server that does not stream lists
	}
	fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`)
	for i := 0; ; i++ {
		if _, err := io.WriteString(w, podJSON(i, strings.Repeat("x", 10<<10))+","); err != nil {
			return
		}
	}
}

// endlessPages answers any list with a page of pods that announces another page.
func endlessPages(w io.Writer, r *http.Request) {
	if isWatch(r) {
		return
	}
	begin := int(time.Now().UnixNano() / 1000)
	var items []string
	for i := range 250 {
		items = append(items, podJSON(begin+i, strings.Repeat("x", 10<<10)))
	}
	fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1","continue":"more"},"items":[%s]}`, strings.Join(items, ","))
}

// endlessWatch answers a watch with added pods without an end.
func endlessWatch(w io.Writer, r *http.Request) {
	if !isWatch(r) {
		fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
		return
	}
	for i := 0; ; i++ {
		if _, err := io.WriteString(w, `{"type":"ADDED","object":`+podJSON(i, strings.Repeat("x", 10<<10))+"}\n"); err != nil {
			return
		}
	}
}

// alternatingWatch answers a watch with added pods without an end, and between them with deletions of pods that do not exist.
func alternatingWatch(w io.Writer, r *http.Request) {
	if !isWatch(r) {
		endlessWatch(w, r)
		return
	}
	for i := 0; ; i += 2 {
		label := strings.Repeat("x", 10<<10)
		if _, err := io.WriteString(w, `{"type":"DELETED","object":`+podJSON(i, label)+`}{"type":"ADDED","object":`+podJSON(i+1, label)+"}\n"); err != nil {
			return
		}
	}
}

// neverAnswer sends no answer until the client gives up.
func neverAnswer(_ io.Writer, r *http.Request) { <-r.Context().Done() }

// answerNoJSON sends an answer that is not JSON.
func answerNoJSON(w io.Writer, _ *http.Request) { fmt.Fprint(w, "\x00}{", strings.Repeat("[", 1<<20)) }

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// newHostileCell creates a Cell in the core whose kubeconfig points to the server.
func newHostileCell(l *e2e.Fixture, server *httptest.Server) *v1alpha1.Cell {
	l.Helper()
	l.Cleanup(server.Close)
	l.Cleanup(server.CloseClientConnections)
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: "of-the-core"}},
		Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	})
	l.Must(err)
	name := "hostile-" + l.Namespace
	l.Must(l.Core.Create(l.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: release.Namespace, Name: name}, Data: map[string][]byte{"kubeconfig": kubeconfig},
	}))
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}}
	cell.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: release.Namespace, Name: name}
	l.Must(l.Core.Create(l.Context(), cell))
	return cell
}

func TestHostileAPIServer(t *testing.T) {
	suite.Claim(t, "it ends no component, and the other cells are counted and protected as before", func(l *e2e.Fixture) {
		l.WaitForReadyCells(installed.Problems)
		hostile, wait := &hostileServer{}, neverAnswer
		hostile.attack.Store(&wait)
		server := httptest.NewTLSServer(hostile)
		cell := newHostileCell(l, server)
		const pods, floor = 12, 6
		l.Eventually(func() string {
			l.Must(l.Core.Get(l.Context(), client.ObjectKeyFromObject(cell), cell))
			if !meta.IsStatusConditionTrue(cell.Status.Conditions, v1alpha1.ConditionConnected) {
				return fmt.Sprintf("%+v; %v", cell.Status.Conditions, installed.Problems())
			}
			return ""
		})
		for _, a := range []struct {
			attempt string
			answer  func(io.Writer, *http.Request)
			// least is how much the server must send, in MiB, before the test continues.
			least int64
		}{
			{"no answer", neverAnswer, 0},
			{"a list without an end", endlessList, 64},
			{"pages without an end", endlessPages, 256},
			{"a watch that adds pods without an end", endlessWatch, 256},
			{"a watch that adds pods and deletes unknown pods", alternatingWatch, 512},
			{"answers that are not JSON", answerNoJSON, 1},
		} {
			lab := suite.NewFixture(t, nil)
			runAttacks(lab, "hostile API server", []attack{{a.attempt, func() (string, bool) {
				hostile.attack.Store(&a.answer)
				hostile.sentBytes.Store(0)
				hostile.requests.Store(0)
				server.CloseClientConnections()
				lab.Eventually(func() string {
					if asked, sent := hostile.requests.Load(), hostile.sentBytes.Load()>>20; asked == 0 || sent < a.least {
						return fmt.Sprintf("the server got %d requests and sent %d MiB, want %d MiB", asked, sent, a.least)
					}
					return ""
				})
				lab.CreateProtector(floor)
				app := lab.Application(pods)
				lab.Must(app.DeployBare(lab.Context(), lab.Cells))
				removed := 0
				lab.Eventually(func() string { // all pods are counted, and the budget is used up
					for _, of := range lab.Cells {
						for _, pod := range lab.ExistingPods(of) {
							if lab.DeletePod(of, pod.Name) == nil {
								removed++
							}
						}
					}
					if removed < pods-floor {
						return fmt.Sprintf("removed %d pods, want %d: %v", removed, pods-floor, installed.Problems())
					}
					return ""
				})
				memory := residentMemory(lab, installed[0], "aggregator")
				return fmt.Sprintf("it sent %d MiB; the aggregator uses %d MiB; %d pods of other cells left of the floor of %d", hostile.sentBytes.Load()>>20, memory>>20, lab.CountExistingPods(), floor),
					lab.CountExistingPods() == floor
			}}})
		}
		l.Must(installed.Problems())
		l.Must(l.Core.Delete(l.Context(), cell))
	})
}
