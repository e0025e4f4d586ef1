package console

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/breakwater-k8s/breakwater/internal/console/access"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// visit is a request of an authenticated visitor.
type visit struct {
	*http.Request
	*access.Visitor
}

// problem is a user-facing error.
type problem struct {
	status int
	Title  string
	Text   string
}

func (p problem) Error() string { return p.Title + ": " + p.Text }

// viewFunc returns the body of a page. Its error can be a problem.
type viewFunc func(v visit) (body any, err error)

// authenticate authenticates a request, or responds with the reason of the failure.
func (s *server) authenticate(w http.ResponseWriter, r *http.Request) (visit, bool) {
	// Automatic refreshes do not count as activity of the user.
	active := r.Header.Get("Breakwater-Live") == "" && r.URL.Query().Get("refresh") == "" && !wantsStream(r)
	visitor, err := s.gate.Admit(r, active)
	if err == nil {
		return visit{r, visitor}, true
	}
	s.rejectVisitor(w, r, err)
	return visit{}, false
}

func (s *server) rejectVisitor(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, access.ErrUnauthenticated) && s.options.Local != nil {
		s.writeProblem(w, r, notSignedInLocally())
		return
	}
	if errors.Is(err, access.ErrUnauthenticated) && wantsPage(r) && r.Header.Get("Authorization") == "" {
		http.Redirect(w, r, "/sign-in?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		return
	}
	s.writeProblem(w, r, s.problemOf(err))
}

// problemOf converts an error to a problem. It logs errors of the API server instead of showing them.
func (s *server) problemOf(err error) problem {
	var known problem
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, access.ErrUnauthenticated):
		return problem{http.StatusUnauthorized, "You are not signed in", "The core's API server rejected the token, or your session has ended."}
	case errors.Is(err, access.ErrTooManyUsers):
		return problem{
			http.StatusServiceUnavailable, "Too many users are signed in",
			"Try again when another user has signed out, or send the token with each request.",
		}
	case errors.Is(err, access.ErrTooManyAttempts):
		return problem{http.StatusTooManyRequests, "Too many attempts", "The core's API server rejected too many tokens. Wait a minute."}
	default:
		s.log.Info("Core API server unreachable", "error", err.Error())
		return problem{http.StatusServiceUnavailable, "The core's API server does not answer", "The console cannot check your permissions until it does."}
	}
}

// writeProblem responds with a problem, as a page or as JSON.
func (s *server) writeProblem(w http.ResponseWriter, r *http.Request, p problem) {
	if p.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="breakwater"`)
	}
	if !wantsPage(r) {
		writeJSON(w, p.status, map[string]string{"error": p.Title, "message": p.Text})
		return
	}
	s.pages.writePage(w, p.status, "problem", frame{Title: p.Title, Body: p})
}

// servePage serves a view to browsers: once, or as a stream if the request asks for one.
func (s *server) servePage(name string, show viewFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := s.authenticate(w, r)
		if !ok {
			return
		}
		if wantsStream(r) {
			s.stream(w, v, name, show)
			return
		}
		body, err := show(v)
		if err != nil {
			s.writeProblem(w, r, s.problemOf(err))
			return
		}
		s.pages.writePage(w, http.StatusOK, name, s.frame(v, body))
	})
}

func (s *server) serveJSON(_ string, show viewFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := s.authenticate(w, r)
		if !ok {
			return
		}
		body, err := show(v)
		if err != nil {
			s.writeProblem(w, r, s.problemOf(err))
			return
		}
		writeJSON(w, http.StatusOK, body)
	})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "Cannot encode the response: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(printable.JSON(text), '\n')) // the client may have disconnected
}

func wantsStream(r *http.Request) bool { return r.Header.Get("Accept") == "text/event-stream" }

func wantsPage(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, "/api/") && strings.Contains(r.Header.Get("Accept"), "text/html")
}
