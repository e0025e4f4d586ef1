package tracing

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// OTLP protocols, with the names of OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	GRPC = "grpc"
	HTTP = "http/protobuf"
)

// spansPath is the path of a collector's HTTP endpoint for spans.
const spansPath = "/v1/traces"

// firstSet returns the first environment variable that is set, and its value.
func firstSet(variables ...string) (name, value string) {
	for _, name := range variables {
		if value := os.Getenv(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// isEnabled reports whether the endpoint flag or the environment enables tracing.
func isEnabled(endpoint string) (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	switch exporter {
	case "none":
		return false, nil
	case "", "otlp":
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER %q: want otlp or none", exporter)
	}
	variable, value := firstSet("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	if endpoint == "" && value != "" {
		if _, err := parseEndpoint(value, ""); err != nil {
			return false, fmt.Errorf("%s %w", variable, err)
		}
	}
	return endpoint != "" || value != "" || exporter != "", nil
}

// protocolOf returns the protocol of the flag, or else of the environment.
func protocolOf(flag string) (string, error) {
	variable, value := firstSet("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	if flag != "" {
		variable, value = "--trace-protocol", flag
	}
	switch value = cmp.Or(value, GRPC); value {
	case GRPC, HTTP:
		return value, nil
	default:
		return "", fmt.Errorf("%s %q: want %s or %s", variable, value, GRPC, HTTP)
	}
}

// parseEndpoint parses the URL of a collector. For gRPC it must have no path. For HTTP the default path is spansPath.
func parseEndpoint(endpoint, protocol string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return nil, fmt.Errorf("%q: want http://HOST:PORT, or https://HOST:PORT for TLS", endpoint)
	case u.User != nil:
		return nil, fmt.Errorf("%q: want no user in it: set credentials in OTEL_EXPORTER_OTLP_HEADERS", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%q: want no query or fragment", endpoint)
	}
	bare := strings.Trim(u.Path, "/") == ""
	if protocol == GRPC && !bare {
		return nil, fmt.Errorf("%q: want no path for %s", endpoint, GRPC)
	}
	if protocol == HTTP && bare {
		u.Path = spansPath
	}
	return u, nil
}
