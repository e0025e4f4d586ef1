package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// testProtection admits everything.
type testProtection struct {
	single  bool
	unready error
}

func (testProtection) Review(context.Context, string, *admissionv1.AdmissionRequest) removal.Answer {
	return removal.Answer{Allowed: true}
}

func (testProtection) ReviewProtector(string, *admissionv1.AdmissionRequest) removal.Answer {
	return removal.Answer{Allowed: true}
}

func (testProtection) PeerHandler() http.Handler       { return http.NotFoundHandler() }
func (p testProtection) HasSingleCell() bool           { return p.single }
func (testProtection) CallerLabel(scope string) string { return scope }
func (p testProtection) Ready() error                  { return p.unready }
func (testProtection) Wait()                           {}

func TestReadiness(t *testing.T) {
	unready := errors.New("PodProtectors are not read yet")
	s := &Server{protection: testProtection{unready: unready}}
	if err := s.Ready(nil); err == nil {
		t.Error("Ready() = nil before the server listens, want an error")
	}
	s.address.Store(&net.TCPAddr{})
	if err := s.Ready(nil); !errors.Is(err, unready) {
		t.Errorf("Ready() = %v before the protectors were read, want %v", err, unready)
	}
	s.protection = testProtection{}
	if err := s.Ready(nil); err != nil {
		t.Errorf("Ready() = %v, want nil", err)
	}
	s.draining.Store(true)
	if err := s.Ready(nil); err == nil {
		t.Error("Ready() = nil while draining, want an error")
	}
}

// Reviews of the API server of a cell cause no read of their pods; those of other callers do.
func TestProvenCallers(t *testing.T) {
	for claim, c := range map[string]struct {
		server *Server
		token  bool
		single bool
		want   bool
	}{
		"no credential":                             {single: true},
		"a caller token":                            {token: true, want: true},
		"a certificate of any name":                 {server: &Server{ClientCAFile: "ca.crt"}, single: true},
		"a certificate of a listed name":            {server: &Server{ClientCAFile: "ca.crt", ClientNames: []string{"apiserver"}}, single: true, want: true},
		"a certificate of a name, of several cells": {server: &Server{ClientCAFile: "ca.crt", ClientNames: []string{"apiserver"}}},
	} {
		t.Run(claim, func(t *testing.T) {
			s := cmp.Or(c.server, &Server{})
			s.protection = testProtection{single: c.single}
			r := httptest.NewRequest(http.MethodPost, "/cells/a/validate", nil)
			if c.token {
				r = r.WithContext(context.WithValue(r.Context(), tokenCaller{}, true))
			}
			if got := s.isProven(r); got != c.want {
				t.Errorf("isProven() = %t, want %t", got, c.want)
			}
		})
	}
}
