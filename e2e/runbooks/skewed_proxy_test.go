package runbooks_test

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// skewedProxy is a proxy of an API server that changes the Date headers of its answers. Its clients see a cluster with another time.
type skewedProxy struct {
	server     *httptest.Server
	kubeconfig string
	// skew is by how many nanoseconds the dates are ahead.
	skew atomic.Int64
}

// newSkewedProxy starts a proxy and writes a kubeconfig for it into a folder.
func newSkewedProxy(cluster federation.Cluster, folder string) *skewedProxy {
	config := cluster.RESTConfig()
	transport, err := rest.TransportFor(config)
	if err != nil {
		panic(err) // there is no test yet that could fail
	}
	host, err := url.Parse(config.Host)
	if err != nil {
		panic(err)
	}
	t := &skewedProxy{kubeconfig: filepath.Join(folder, "tilted.kubeconfig")}
	proxy := httputil.NewSingleHostReverseProxy(host)
	quiet := log.New(io.Discard, "", 0)
	proxy.Transport, proxy.FlushInterval, proxy.ErrorLog = transport, -1, quiet
	proxy.ModifyResponse = func(response *http.Response) error {
		if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			response.Header.Set("Date", date.Add(time.Duration(t.skew.Load())).UTC().Format(http.TimeFormat))
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) } // like the API server itself when it is stopped
	t.server = httptest.NewUnstartedServer(proxy)
	t.server.EnableHTTP2, t.server.Config.ErrorLog = true, quiet
	t.server.StartTLS()
	if err := clientcmd.WriteToFile(*t.addContext(clientcmdapi.NewConfig(), cluster.Name()), t.kubeconfig); err != nil {
		panic(err)
	}
	return t
}

// addContext adds a context for the proxy to a kubeconfig. The proxy does not authenticate clients and acts as the administrator.
func (t *skewedProxy) addContext(file *clientcmdapi.Config, name string) *clientcmdapi.Config {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: t.server.Certificate().Raw})
	file.Clusters[name] = &clientcmdapi.Cluster{Server: t.server.URL, CertificateAuthorityData: authority}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	if file.CurrentContext == "" {
		file.CurrentContext = name
	}
	return file
}

func (t *skewedProxy) stop() {
	if t != nil {
		t.server.CloseClientConnections()
		t.server.Close()
	}
}
