package charts_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
)

func TestMetricsReaderClusterRole(t *testing.T) {
	single.Claim(t, "only authorized clients can read the metrics of a component", func(l *e2e.Fixture) {
		l.WaitForReadyCells(installed.Problems)
		token, err := installed.MetricsToken(l.Context())
		l.Must(err)
		for _, component := range []string{"webhook", "aggregator", "generator", "topology"} {
			for token, want := range map[string]int{"": http.StatusUnauthorized, token: http.StatusOK} {
				l.Eventually(func() string {
					code, body, err := installed.Scrape(l.Context(), component, token)
					if err != nil || code != want || strings.Contains(body, "breakwater_build_info{") != (want == http.StatusOK) {
						return fmt.Sprintf("%s answers with code %d (%v), want %d; %v", component, code, err, want, installed.Problems())
					}
					return ""
				})
			}
		}
	})
}
