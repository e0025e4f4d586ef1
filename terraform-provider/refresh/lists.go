// Package refresh serves the reads of a refresh from lists.
package refresh

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

const (
	// PageSize limits how many objects one list request returns.
	PageSize = 500
	// readsBeforeList is how many objects of a kind and namespace are read one by one before they are listed.
	readsBeforeList = 10
	// objectsPerRead is how many listed objects cost as much as one that is read alone.
	objectsPerRead = 20
	// listMaxAge is how long a list serves reads. It is long enough for the refresh of 1,000 resources.
	listMaxAge = 30 * time.Second
	// listTimeout is how long a read waits for a list.
	listTimeout = 10 * time.Second
	// listsMaxBytes bounds the JSON of all lists that are kept.
	listsMaxBytes = 32 << 20
)

// Lists serves the reads of a refresh from one LIST for each kind and namespace, instead of one GET for each object. It belongs to one configured
// cluster, which Terraform configures again for each plan. So no list is older than the plan that it serves, or than a write of this process.
type Lists struct {
	// Client sends the requests.
	Client rest.Interface
	// maxBytes bounds the JSON of all lists.
	maxBytes int64

	mu    sync.Mutex
	byKey map[Key]*listing
	// writes counts the writes of this process.
	writes int
}

// Key identifies the objects of a kind in a namespace, which is empty for a cluster-scoped kind.
type Key struct {
	Resource  schema.GroupVersionResource
	Namespace string
}

// listing is what is known about the objects of a kind in a namespace.
type listing struct {
	// failed is set when the objects cannot be listed.
	failed bool
	// reads counts the reads that no list has served since the last list. The next one is worth its cost after worth reads.
	reads, worth int
	// last is the last list, which may still be under way; nil if there is none.
	last *objectList
}

// objectList is the result of one LIST.
type objectList struct {
	began time.Time
	// writes is the number of writes of this process when it began.
	writes int
	// done is closed when objects and size are set.
	done chan struct{}
	// objects has the JSON of the objects by their names; nil if the list failed.
	objects map[string]json.RawMessage
	size    int64
}

var (
	errTooLarge = errors.New("the list is too large")
	errNoCount  = errors.New("the server does not tell how many objects remain")
)

// New returns Lists whose Client the caller must set before the first read.
func New() *Lists {
	return &Lists{maxBytes: listsMaxBytes, byKey: map[Key]*listing{}}
}

// Find returns an object from a list. ok is false if the caller must read it from the API server: it is not in the list, there is no list, or the
// list would cost more.
func (l *Lists) Find(ctx context.Context, key Key, name string) (live *unstructured.Unstructured, ok bool) {
	return l.join(ctx, key).object(ctx, name)
}

// Peek is Find, but requests no list.
func (l *Lists) Peek(ctx context.Context, key Key, name string) (live *unstructured.Unstructured, ok bool) {
	l.mu.Lock()
	of := l.byKey[key]
	var last *objectList
	if of != nil && l.isCurrent(of.last) {
		last = of.last
	}
	l.mu.Unlock()
	return last.object(ctx, name)
}

// In addresses a request to the objects.
func (k Key) In(request *rest.Request) *rest.Request {
	return request.AbsPath("apis", k.Resource.Group, k.Resource.Version).NamespaceIfScoped(k.Namespace, k.Namespace != "").Resource(k.Resource.Resource)
}

// isCurrent reports whether a list may serve a read. The caller has locked l.
func (l *Lists) isCurrent(last *objectList) bool {
	return last != nil && last.writes == l.writes && time.Since(last.began) < listMaxAge
}

// object waits for the list, and returns an object from it. l may be nil.
func (l *objectList) object(ctx context.Context, name string) (live *unstructured.Unstructured, ok bool) {
	if l == nil {
		return nil, false
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil, false
	}
	raw, ok := l.objects[name]
	if !ok {
		return nil, false
	}
	live = &unstructured.Unstructured{}
	return live, live.UnmarshalJSON(raw) == nil
}

// join returns the list that serves a read, and requests it if there is none yet; nil if no list serves it.
func (l *Lists) join(ctx context.Context, key Key) *objectList {
	l.mu.Lock()
	of := l.byKey[key]
	if of == nil {
		of = &listing{worth: readsBeforeList}
		l.byKey[key] = of
	}
	if l.isCurrent(of.last) {
		defer l.mu.Unlock()
		return of.last
	}
	of.reads++
	if of.failed || of.reads <= of.worth {
		l.mu.Unlock()
		return nil
	}
	next := &objectList{began: time.Now(), writes: l.writes, done: make(chan struct{})}
	limit := objectsPerRead * of.reads
	of.last, of.reads = next, 0
	l.mu.Unlock()
	l.fetch(ctx, key, of, next, limit)
	return next
}

// fetch lists at most limit objects. If there are more, the next list waits until it is worth its cost.
func (l *Lists) fetch(ctx context.Context, key Key, of *listing, next *objectList, limit int) {
	defer close(next.done)
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	objects, size, total, err := l.read(ctx, key, limit)
	l.mu.Lock()
	defer l.mu.Unlock()
	of.worth = max(readsBeforeList, total/objectsPerRead)
	switch {
	case err != nil:
		tflog.Debug(ctx, "Reading objects one by one", map[string]any{"resource": key.Resource.Resource, "namespace": key.Namespace, "error": err.Error()})
		of.failed = true
	case total > limit:
		of.last = nil
	default:
		next.objects, next.size = objects, size
		l.evict(next)
	}
}

// read returns the JSON of the objects by name, and its size; or only their total number if that is greater than the limit.
func (l *Lists) read(ctx context.Context, key Key, limit int) (objects map[string]json.RawMessage, size int64, total int, err error) {
	objects = map[string]json.RawMessage{}
	next := ""
	for {
		page, read, err := l.page(ctx, key, next, min(PageSize, limit-len(objects)), l.maxBytes-size)
		if err != nil {
			return nil, 0, 0, err
		}
		size += read
		for _, raw := range page.Items {
			var object metav1.PartialObjectMetadata
			if err := json.Unmarshal(raw, &object); err != nil {
				return nil, 0, 0, err
			}
			objects[object.Name] = raw
		}
		next = page.Continue
		switch total = len(objects); {
		case next == "":
			return objects, size, total, nil
		case len(page.Items) == 0 || page.RemainingItemCount == nil:
			return nil, 0, 0, errNoCount
		}
		if total += int(*page.RemainingItemCount); total > limit {
			return nil, 0, total, nil
		}
	}
}

// listPage is one page of a list.
type listPage struct {
	metav1.ListMeta `json:"metadata"`
	Items           []json.RawMessage `json:"items"`
}

// page requests one page of at most limit objects and maxBytes.
func (l *Lists) page(ctx context.Context, key Key, next string, limit int, maxBytes int64) (*listPage, int64, error) {
	request := key.In(l.Client.Get()).Param("limit", strconv.Itoa(limit))
	if next != "" {
		request = request.Param("continue", next)
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, maxBytes+1))
	if err != nil {
		return nil, 0, err
	}
	if int64(len(raw)) > maxBytes {
		return nil, 0, errTooLarge
	}
	page := &listPage{}
	return page, int64(len(raw)), json.Unmarshal(raw, page)
}

// evict drops the oldest lists until the rest is small enough. It keeps the newest.
func (l *Lists) evict(newest *objectList) {
	for {
		total, oldest := int64(0), (*listing)(nil)
		for _, of := range l.byKey {
			if of.last == nil {
				continue
			}
			total += of.last.size
			if of.last != newest && of.last.size > 0 && (oldest == nil || of.last.began.Before(oldest.last.began)) {
				oldest = of
			}
		}
		if total <= l.maxBytes || oldest == nil {
			return
		}
		oldest.last = nil
	}
}

// forget drops all lists, because this process has written.
func (l *Lists) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes++
	for _, of := range l.byKey {
		of.last = nil
	}
}

// Observe returns a transport that drops the lists after each write.
func (l *Lists) Observe(next http.RoundTripper) http.RoundTripper { return writeObserver{next, l} }

// writeObserver drops the lists after each write.
type writeObserver struct {
	http.RoundTripper
	lists *Lists
}

// RoundTrip sends the request.
func (o writeObserver) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet && !req.URL.Query().Has("dryRun") {
		defer o.lists.forget()
	}
	return o.RoundTripper.RoundTrip(req)
}
