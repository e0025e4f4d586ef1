package webhook_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// fakeAPIServer replaces a core cluster's API server: it keeps protectors in memory and answers at once. It has no schema, no
// etcd and no history, so that only the webhook limits the throughput. Status updates are compare-and-swap, and watches
// get every write.
type fakeAPIServer struct {
	*httptest.Server

	mu       sync.Mutex
	version  int
	stored   map[string]*storedProtector // by path
	watchers map[chan []byte]struct{}
}

// storedProtector is a protector in its wire format.
type storedProtector struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              json.RawMessage `json:"spec"`
	Status            json.RawMessage `json:"status"`
}

const (
	fakeAPIPath = "/apis/breakwater.dev/v1alpha1"
	// backlog is how many events a watcher may lag behind before its watch ends.
	backlog = 100_000
)

func newFakeAPIServer(t testing.TB) *fakeAPIServer {
	t.Helper()
	s := &fakeAPIServer{version: 100, stored: map[string]*storedProtector{}, watchers: map[chan []byte]struct{}{}}
	s.Server = httptest.NewUnstartedServer(s.routes())
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *fakeAPIServer) routes() http.Handler {
	mux := http.NewServeMux()
	version := metav1.GroupVersionForDiscovery{GroupVersion: v1alpha1.GroupVersion.String(), Version: v1alpha1.GroupVersion.Version}
	group := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: v1alpha1.GroupVersion.Group,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	always := func(path string, object any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, object) })
	}
	always("/api", &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}})
	always("/apis", &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{group}})
	always("/apis/"+group.Name, &group)
	always(fakeAPIPath, &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version.GroupVersion,
		APIResources: []metav1.APIResource{
			{Name: "podprotectors", SingularName: "podprotector", Kind: "PodProtector", Namespaced: true, Verbs: metav1.Verbs{"get", "list", "watch", "update"}},
			{Name: "cells", SingularName: "cell", Kind: "Cell", Verbs: metav1.Verbs{"get", "list", "watch"}},
			{Name: "podprotectors/status", Kind: "PodProtector", Namespaced: true, Verbs: metav1.Verbs{"get", "update"}},
		},
	})
	mux.HandleFunc("GET "+fakeAPIPath+"/cells", s.listCells)
	mux.HandleFunc("GET "+fakeAPIPath+"/podprotectors", s.list)
	mux.HandleFunc("GET "+fakeAPIPath+"/namespaces/{namespace}/podprotectors/{name}", s.get)
	mux.HandleFunc("PUT "+fakeAPIPath+"/namespaces/{namespace}/podprotectors/{name}/status", s.put)
	return mux
}

func reply(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // a client that has disconnected needs no answer
}

func deny(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	reply(w, code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
		Message: "the stand-in says " + string(reason),
	})
}

// add stores a protector.
func (s *fakeAPIServer) add(p *v1alpha1.PodProtector) error {
	spec, err := json.Marshal(p.Spec)
	if err != nil {
		return err
	}
	status, err := json.Marshal(p.Status)
	if err != nil {
		return err
	}
	k := &storedProtector{TypeMeta: metav1.TypeMeta{Kind: "PodProtector", APIVersion: v1alpha1.GroupVersion.String()},
		ObjectMeta: *p.ObjectMeta.DeepCopy(), Spec: spec, Status: status}
	s.mu.Lock()
	defer s.mu.Unlock()
	k.UID, k.Generation = types.UID("uid-of-"+p.Namespace+"-"+p.Name), 1
	return s.commit(fakeAPIPath+"/namespaces/"+p.Namespace+"/podprotectors/"+p.Name, "ADDED", k)
}

// commit stores k as the newest state of its path and notifies the watchers.
func (s *fakeAPIServer) commit(path, event string, k *storedProtector) error {
	s.version++
	k.ResourceVersion = strconv.Itoa(s.version)
	s.stored[path] = k
	if len(s.watchers) == 0 {
		return nil
	}
	raw, err := encodeEvent(event, k)
	for watcher := range s.watchers {
		select {
		case watcher <- raw:
		default:
			close(watcher)
			delete(s.watchers, watcher)
		}
	}
	return err
}

func encodeEvent(event string, object any) ([]byte, error) {
	return json.Marshal(struct {
		Type   string `json:"type"`
		Object any    `json:"object"`
	}{event, object})
}

func (s *fakeAPIServer) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	k, ok := s.stored[r.URL.Path]
	s.mu.Unlock()
	if !ok {
		deny(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	reply(w, http.StatusOK, k)
}

func (s *fakeAPIServer) put(w http.ResponseWriter, r *http.Request) {
	var asked storedProtector
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		deny(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	path := strings.TrimSuffix(r.URL.Path, "/status")
	s.mu.Lock()
	old, ok := s.stored[path]
	if !ok || old.ResourceVersion != asked.ResourceVersion {
		s.mu.Unlock()
		deny(w, http.StatusConflict, metav1.StatusReasonConflict)
		return
	}
	updated := *old
	updated.Status = asked.Status
	err := s.commit(path, "MODIFIED", &updated)
	s.mu.Unlock()
	if err != nil {
		deny(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		return
	}
	reply(w, http.StatusOK, &updated)
}

// list answers list requests, and watches that start with a list.
func (s *fakeAPIServer) list(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		items := make([]*storedProtector, 0, len(s.stored))
		for _, k := range s.stored {
			items = append(items, k)
		}
		reply(w, http.StatusOK, map[string]any{
			"kind": "PodProtectorList", "apiVersion": v1alpha1.GroupVersion.String(),
			"metadata": metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}, "items": items,
		})
		return
	}
	watcher := make(chan []byte, backlog)
	s.mu.Lock()
	initial := [][]byte{}
	var err error
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		initial, err = s.initial()
	} else if r.URL.Query().Get("resourceVersion") != strconv.Itoa(s.version) {
		err = fmt.Errorf("there is no history")
	}
	if err == nil {
		s.watchers[watcher] = struct{}{}
	}
	s.mu.Unlock()
	if err != nil {
		deny(w, http.StatusGone, metav1.StatusReasonExpired)
		return
	}
	s.stream(w, r, initial, watcher)
	s.mu.Lock()
	delete(s.watchers, watcher)
	s.mu.Unlock()
}

// initial returns the state as events, with the bookmark that ends them.
func (s *fakeAPIServer) initial() (events [][]byte, err error) {
	for _, k := range s.stored {
		raw, err := encodeEvent("ADDED", k)
		if err != nil {
			return nil, err
		}
		events = append(events, raw)
	}
	raw, err := endOfInitial("PodProtector", s.version)
	return append(events, raw), err
}

// endOfInitial returns the bookmark that ends the initial events of a watch.
func endOfInitial(kind string, version int) ([]byte, error) {
	end := &storedProtector{TypeMeta: metav1.TypeMeta{Kind: kind, APIVersion: v1alpha1.GroupVersion.String()},
		Spec: json.RawMessage("{}"), Status: json.RawMessage("{}")}
	end.ResourceVersion = strconv.Itoa(version)
	end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	return encodeEvent("BOOKMARK", end)
}

// listCells answers list requests and watches of Cells, of which there are none.
func (s *fakeAPIServer) listCells(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "" {
		list := &v1alpha1.CellList{TypeMeta: metav1.TypeMeta{Kind: "CellList", APIVersion: v1alpha1.GroupVersion.String()}, Items: []v1alpha1.Cell{}}
		list.ResourceVersion = "1"
		reply(w, http.StatusOK, list)
		return
	}
	end, err := endOfInitial("Cell", 1)
	if err != nil {
		deny(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		return
	}
	s.stream(w, r, [][]byte{end}, nil)
}

func (s *fakeAPIServer) stream(w http.ResponseWriter, r *http.Request, initial [][]byte, watcher <-chan []byte) {
	w.Header().Set("Content-Type", "application/json")
	flush := http.NewResponseController(w).Flush
	for _, raw := range initial {
		if _, err := w.Write(raw); err != nil {
			return
		}
	}
	for flush() == nil {
		select {
		case raw, open := <-watcher:
			if _, err := w.Write(raw); err != nil || !open {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
