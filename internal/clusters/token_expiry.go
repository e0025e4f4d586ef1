package clusters

import (
	"time"

	"k8s.io/client-go/rest"
)

// TokenExpiry returns when the token that requests use now expires. ok is false if there is no token, if it does not expire, or if the
// kubelet replaces it, so that no user has to.
func TokenExpiry(config *rest.Config) (at time.Time, ok bool) {
	if rotating, follows := config.Transport.(*RotatingConnection); follows {
		at = rotating.current.Load().expiry
	} else {
		at = configuredExpiry(config)
	}
	return at, !at.IsZero()
}

// configuredExpiry returns when the token in config expires; zero for none, or if the kubelet replaces it.
func configuredExpiry(config *rest.Config) time.Time {
	if config.BearerTokenFile != "" {
		return time.Time{}
	}
	at, _ := jwtExpiry(config.BearerToken)
	return at
}

// jwtExpiry returns the expiry that a JWT states. It is informational: the API server decides whether a token is valid.
func jwtExpiry(token string) (time.Time, bool) {
	claims, err := claimsOf(token)
	if err != nil || claims.Expires == 0 {
		return time.Time{}, false
	}
	return time.Unix(claims.Expires, 0), true
}
