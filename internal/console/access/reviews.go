package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// maxTokenBytes is the maximum length of a token that is sent to an API server.
	maxTokenBytes = 16 << 10
	// reviewTime is the timeout of one review. reviewsAtOnce is the maximum number of concurrent reviews.
	reviewTime    = 10 * time.Second
	reviewsAtOnce = 16
	// firstAtOnce is the maximum number of additional concurrent reviews of tokens that have not admitted a client yet.
	firstAtOnce = 4
	// goodFor is how long an accepted token is remembered.
	goodFor = time.Hour
	// mostTokens and mostRights limit the caches.
	mostTokens = 4_096
	mostRights = 65_536
)

// ErrNobody means that the API server rejects the token as invalid or expired.
var ErrNobody = errors.New("the apiserver does not accept the token")

// Reviews asks the core's API server for the identity and the permissions of users. Use NewReviews.
type Reviews struct {
	client   kubernetes.Interface
	lifetime time.Duration
	tokens   *memory[[sha256.Size]byte, answer]
	rights   *memory[rightOf, bool]
	// good are recently accepted tokens.
	good    *memory[[sha256.Size]byte, struct{}]
	flights singleflight.Group
	// turns limits reviews for visitors who were admitted before, and first those for others: sign-ins do not delay open sessions.
	turns, first chan struct{}
}

type answer struct {
	who Identity
	ok  bool
}

type rightOf struct {
	who   [sha256.Size]byte
	right Right
}

// NewReviews returns Reviews that cache the answers of the API server for lifetime.
func NewReviews(client kubernetes.Interface, lifetime time.Duration, now func() time.Time) *Reviews {
	return &Reviews{
		client: client, lifetime: lifetime, turns: make(chan struct{}, reviewsAtOnce), first: make(chan struct{}, firstAtOnce),
		tokens: newMemory[[sha256.Size]byte, answer](now, mostTokens), rights: newMemory[rightOf, bool](now, mostRights),
		good: newMemory[[sha256.Size]byte, struct{}](now, mostTokens),
	}
}

// Known reports whether a review of a token is not a guess: the API server has answered recently, or has accepted the token within the
// last hour.
func (r *Reviews) Known(token string) bool {
	key := sha256.Sum256([]byte(token))
	_, answered := r.tokens.get(key)
	_, good := r.good.get(key)
	return answered || good
}

// Who returns the identity of a previously admitted visitor by its token. The error is ErrNobody, or a failure of the API server to
// answer.
func (r *Reviews) Who(ctx context.Context, token string) (Identity, error) {
	return r.who(ctx, token, r.turns)
}

// First is like Who, for a token that has not admitted a client yet.
func (r *Reviews) First(ctx context.Context, token string) (Identity, error) {
	return r.who(ctx, token, r.first)
}

func (r *Reviews) who(ctx context.Context, token string, turns chan struct{}) (Identity, error) {
	if token == "" || len(token) > maxTokenBytes {
		return Identity{}, ErrNobody
	}
	key := sha256.Sum256([]byte(token))
	said, known := r.tokens.get(key)
	if !known {
		got, err := r.flight(ctx, turns, "token "+string(key[:]), func(ctx context.Context) (any, error) { return r.reviewToken(ctx, key, token) })
		if err != nil {
			return Identity{}, fmt.Errorf("review a token: %w", err)
		}
		said = got.(answer)
	}
	if !said.ok {
		return Identity{}, ErrNobody
	}
	return said.who, nil
}

func (r *Reviews) reviewToken(ctx context.Context, key [sha256.Size]byte, token string) (answer, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := r.client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return answer{}, err
	}
	said := answer{ok: review.Status.Authenticated && review.Status.User.Username != ""}
	if said.ok {
		said.who = identify(review.Status.User)
		r.good.put(key, struct{}{}, goodFor)
	} else {
		r.good.drop(key)
	}
	r.tokens.put(key, said, r.lifetime)
	return said, nil
}

// May reports whether a user has a permission. The error is a failure of the API server to answer.
func (r *Reviews) May(ctx context.Context, who Identity, right Right) (bool, error) {
	key := rightOf{who.key, right}
	if may, known := r.rights.get(key); known {
		return may, nil
	}
	flight := fmt.Sprintf("right %s %q", who.key[:], right)
	got, err := r.flight(ctx, r.turns, flight, func(ctx context.Context) (any, error) {
		review, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, right.review(who), metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		may := review.Status.Allowed && !review.Status.Denied
		r.rights.put(key, may, r.lifetime)
		return may, nil
	})
	if err != nil {
		return false, fmt.Errorf("review a right: %w", err)
	}
	return got.(bool), nil
}

// flight merges concurrent reviews with the same key into one. A caller whose context ends stops waiting.
func (r *Reviews) flight(ctx context.Context, turns chan struct{}, key string, ask func(context.Context) (any, error)) (any, error) {
	result := r.flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTime)
		defer cancel()
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return ask(ctx)
	})
	select {
	case got := <-result:
		return got.Val, got.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
