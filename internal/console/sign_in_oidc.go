package console

import (
	"errors"
	"net/http"

	"github.com/breakwater-k8s/breakwater/internal/console/oidc"
)

// maxNextBytes is the maximum length of a path that a cookie keeps during a sign-in.
const maxNextBytes = 1 << 10

// beginOIDC sends the browser to the OIDC provider.
func (s *server) beginOIDC(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.URL.Query().Get("next"))
	if len(next) > maxNextBytes {
		next = "/"
	}
	to, cookie, err := s.oidc.Begin(next)
	if err != nil {
		s.rejectOIDC(w, next, err)
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// finishOIDC opens a session for a user whom the OIDC provider has sent back.
func (s *server) finishOIDC(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, oidc.NoCookie())
	undo, err := s.gate.BeginAttempt(r)
	if err != nil {
		s.rejectOIDC(w, "/", err)
		return
	}
	who, next, err := s.oidc.Finish(r)
	if !errors.Is(err, oidc.ErrRejected) {
		undo()
	}
	if err != nil {
		s.rejectOIDC(w, "/", err)
		return
	}
	cookie, err := s.gate.SignInAs(r, who)
	if err != nil {
		s.rejectOIDC(w, next, err)
		return
	}
	s.metrics.signIns.WithLabelValues("accepted").Inc()
	http.SetCookie(w, cookie)
	// A redirect would still be a request from the provider's site, with which browsers do not send a cookie that is SameSite=Strict.
	s.pages.writePage(w, http.StatusOK, "signed-in", frame{Title: "Signed in", Next: next})
}

// rejectOIDC shows the sign-in page with a problem. Details are in the log.
func (s *server) rejectOIDC(w http.ResponseWriter, next string, err error) {
	s.metrics.signIns.WithLabelValues("refused").Inc()
	status, text := http.StatusServiceUnavailable, "The OIDC provider does not answer. Try again later, or sign in with a token."
	switch {
	case errors.Is(err, oidc.ErrRejected):
		status, text = http.StatusUnauthorized, "The OIDC provider did not sign you in, or it took too long. Try again."
	case !errors.Is(err, oidc.ErrUnavailable):
		p := s.problemOf(err)
		status, text = p.status, p.Text
	}
	s.log.Info("Refused a sign-in with OIDC", "error", err.Error())
	s.writeSignIn(w, status, signInForm{Next: next, Problem: text})
}
