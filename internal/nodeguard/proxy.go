package nodeguard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/breakwater-k8s/breakwater/internal/nodeguard/podwire"
)

// failureLogInterval is the average interval of log messages about requests that could not be forwarded.
const failureLogInterval = 5 * time.Second

// maxBody limits what the guard keeps in memory of a request or a list.
const maxBody = 64 << 20

// newProxy returns the handler that forwards the kubelet's requests to an API server.
func newProxy(g *Guard, server *url.URL, upstream http.RoundTripper) http.Handler {
	failures := rate.NewLimiter(rate.Every(failureLogInterval), 3) // the kubelet repeats a request many times a second
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			r.Out.Host = server.Host
			r.Out.Header.Del("Accept-Encoding") // responses are edited
		},
		Transport:     timed{upstream},
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			err := g.editResponse(r)
			g.metrics.answered(r.Request.Context())
			return err
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil && failures.Allow() {
				g.log.Info("Failed to forward request", "path", r.URL.Path, "reason", err.Error())
			}
			status := http.StatusBadGateway
			if errors.Is(err, ErrOtherCluster) {
				status = http.StatusServiceUnavailable
			}
			http.Error(w, "breakwater node guard: "+err.Error(), status)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.metrics.requests.Inc()
		r = r.WithContext(withTiming(r.Context()))
		if err := g.editRequest(r); err != nil {
			http.Error(w, "breakwater node guard: "+err.Error(), http.StatusBadRequest)
			return
		}
		if g.isNodePods(r) && isWatch(r) && !hasInitialEvents(r) && g.mustResync() {
			expire(w)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// expire answers a watch as an API server that no longer has the version from which it begins. The kubelet then lists its pods.
func expire(w http.ResponseWriter) {
	status := apierrors.NewResourceExpired("the node guard was restarted").Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// hasInitialEvents reports whether a watch begins with all pods, as a list would.
func hasInitialEvents(r *http.Request) bool {
	return r.URL.Query().Get("sendInitialEvents") == strconv.FormatBool(true)
}

// editRequest translates the UIDs of registered pods in a request of the kubelet.
func (g *Guard) editRequest(r *http.Request) error {
	if g.isNodePods(r) {
		query := r.URL.Query()
		query.Del("limit") // the guard needs the whole list
		r.URL.RawQuery = query.Encode()
	}
	uids := g.uids().Inverse()
	if len(uids) == 0 {
		return nil
	}
	r.URL.RawQuery = string(uids.Replace([]byte(r.URL.RawQuery)))
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return err
	}
	if len(body) > maxBody {
		return fmt.Errorf("the request has more than %d bytes", maxBody)
	}
	r.Body = io.NopCloser(bytes.NewReader(uids.Replace(body)))
	return nil
}

// isNodePods reports whether a request lists or watches the pods of this node, as the kubelet does to learn what it runs.
func (g *Guard) isNodePods(r *http.Request) bool {
	if r.Method != http.MethodGet || r.URL.Path != "/api/v1/pods" {
		return false
	}
	selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if err != nil {
		return false
	}
	node, found := selector.RequiresExactMatch("spec.nodeName")
	return found && node == g.node && len(selector.Requirements()) == 1
}

// editResponse edits what the API server returns.
func (g *Guard) editResponse(r *http.Response) error {
	isWatch := isWatch(r.Request)
	switch {
	case r.StatusCode != http.StatusOK && r.StatusCode != http.StatusCreated, r.StatusCode == http.StatusSwitchingProtocols:
		return nil
	case g.isNodePods(r.Request):
		return g.editPods(r, isWatch)
	case isWatch, len(g.uids()) == 0:
		return nil // other watches have no UIDs of pods
	}
	body, err := readAll(r)
	if err != nil {
		return err
	}
	setBody(r, g.uids().Replace(body))
	return nil
}

func (g *Guard) editPods(r *http.Response, isWatch bool) error {
	f, err := podwire.FormatOf(r.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if isWatch {
		r.Body = g.watchPods(r.Request.Context(), f, r.Body, hasInitialEvents(r.Request))
		r.ContentLength = -1
		r.Header.Del("Content-Length")
		return nil
	}
	body, err := readAll(r)
	if err != nil {
		return err
	}
	edited, err := g.observeList(r.Request.Context(), f, body)
	if err != nil {
		return err
	}
	setBody(r, edited)
	return nil
}

func isWatch(r *http.Request) bool {
	switch r.URL.Query().Get("watch") {
	case "true", "1":
		return true
	default:
		return strings.HasPrefix(r.URL.Path, "/api/v1/watch/")
	}
}

func readAll(r *http.Response) ([]byte, error) {
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("the response has more than %d bytes", maxBody)
	}
	return body, err
}

func setBody(r *http.Response, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
}
