package console

import (
	"net/http"
	"net/url"
	"strings"
)

// signInForm is the body of the sign-in page.
type signInForm struct {
	Next, Problem string
	// Several reports whether there are several cores.
	Several bool
}

func (s *server) writeSignIn(w http.ResponseWriter, status int, form signInForm) {
	form.Several = len(s.cores) > 1
	s.pages.writePage(w, status, "sign-in", frame{Title: "Sign in", Body: form})
}

func (s *server) signInPage(w http.ResponseWriter, r *http.Request) {
	s.writeSignIn(w, http.StatusOK, signInForm{Next: localPath(r.URL.Query().Get("next"))})
}

func (s *server) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	if err := r.ParseForm(); err != nil {
		s.writeProblem(w, r, problem{http.StatusBadRequest, "The form cannot be read", "A token has at most 16 KiB."})
		return
	}
	next := localPath(r.PostForm.Get("next"))
	cookie, err := s.gate.SignIn(r, strings.TrimSpace(r.PostForm.Get("token")))
	if err != nil {
		p := s.problemOf(err)
		text := p.Text
		if p.status == http.StatusUnauthorized {
			text = "The core's API server rejected this token. It may have expired, or belong to another cluster."
		}
		s.metrics.signIns.WithLabelValues("refused").Inc()
		s.writeSignIn(w, p.status, signInForm{Next: next, Problem: text})
		return
	}
	s.metrics.signIns.WithLabelValues("accepted").Inc()
	http.SetCookie(w, cookie)
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (s *server) signOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, s.gate.SignOut(r))
	if s.options.Local != nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}

// localPath returns next if it is a path of this host, and / otherwise. This prevents open redirects.
func localPath(next string) string {
	parsed, err := url.Parse(next)
	path := strings.HasPrefix(next, "/") && !strings.HasPrefix(next, "//") && !strings.ContainsAny(next, "\\\r\n\t")
	if err != nil || parsed.IsAbs() || parsed.Host != "" || !path {
		return "/"
	}
	return next
}
