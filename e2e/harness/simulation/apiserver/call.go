package apiserver

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// call is one parsed request.
type call struct {
	method, path string
	kind         *Kind
	key          types.NamespacedName
	subresource  string
	query        url.Values
	watch        bool
	// metadata requests only the metadata of objects.
	metadata    bool
	contentType string
	body        []byte
	// drawKey identifies the call for the dice. It includes the time of the request, since two may pass a gate at one instant.
	drawKey string
	// listVersion is the version of the list in its answer.
	listVersion uint64
}

// parse reads the path of a request: /api/v1/namespaces/NS/RESOURCE/NAME/SUBRESOURCE or /apis/GROUP/VERSION/...
func (l *Link) parse(request *http.Request) (*call, error) {
	c := &call{
		method: request.Method, path: request.URL.Path, query: request.URL.Query(), contentType: request.Header.Get(contentType),
		metadata: strings.Contains(request.Header.Get("Accept"), "PartialObjectMetadata"),
	}
	if isDiscovery(c.path) {
		c.drawKey = fmt.Sprintf("%s %s %d", c.method, c.path, time.Now().UnixNano())
		return c, nil
	}
	if request.Body != nil {
		var err error
		if c.body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
	}
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	if len(parts) > 0 && parts[0] == "apis" {
		parts = parts[1:]
	}
	parts = parts[min(2, len(parts)):]
	if len(parts) > 2 && parts[0] == Namespaces {
		c.key.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) == 0 || l.store.kinds[parts[0]] == nil {
		return nil, fmt.Errorf("the simulated apiserver serves no %s", request.URL.Path)
	}
	c.kind, parts = l.store.kinds[parts[0]], parts[1:]
	if len(parts) > 0 {
		c.key.Name, parts = parts[0], parts[1:]
	}
	if len(parts) > 0 {
		c.subresource = parts[0]
	}
	c.drawKey = fmt.Sprintf("%s %s %d", c.method, c.path, time.Now().UnixNano())
	c.watch = c.query.Get("watch") == "1" || c.query.Get("watch") == trueParam
	return c, nil
}
