package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/crds"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

// ownDefinitions returns the CRDs of this version.
func ownDefinitions() (all []apiextensionsv1.CustomResourceDefinition, err error) {
	names, err := fs.Glob(crds.FS, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		raw, err := crds.FS.ReadFile(name)
		if err != nil {
			return nil, err
		}
		definition := apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, &definition); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		all = append(all, definition)
	}
	return all, nil
}

func readResult[T any](value T, err error) findings.Result[T] {
	return findings.Result[T]{Value: value, Err: err}
}

// measureClock measures the clock of an API server with the Date header of a response, which has a resolution of one second. An error
// response has that header as well.
func measureClock(ctx context.Context, config *rest.Config) (findings.Clock, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return findings.Clock{}, err
	}
	defer client.CloseIdleConnections()
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return findings.Clock{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return findings.Clock{}, err
	}
	sent := time.Now()
	response, err := client.Do(request)
	took := time.Since(sent)
	if err != nil {
		return findings.Clock{}, err
	}
	defer response.Body.Close()
	date, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return findings.Clock{}, fmt.Errorf("%s returned no valid Date header: %w", config.Host, err)
	}
	const half = time.Second / 2
	return findings.Clock{Ahead: date.Add(half).Sub(sent.Add(took / 2)), Uncertainty: half + took/2}, nil
}
