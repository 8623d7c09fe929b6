package rabbit_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"berth/lock"
)

// tokenKey signs tokens.
const tokenKey = "a key that nobody else has, 32 bytes at least"

func encoded(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// takeTokens has the shared broker take tokens in the place of passwords, beside its own users.
func takeTokens(t *testing.T) {
	t.Helper()
	must(t, shared.EnablePlugin(within(t), "rabbitmq_auth_backend_oauth2"))
	_, err := shared.Eval(within(t), fmt.Sprintf(`
		Set = fun(K, V) -> ok = application:set_env(rabbitmq_auth_backend_oauth2, K, V) end,
		Set(resource_server_id, <<"berth">>),
		Set(key_config, [{default_key, <<"own">>}, {algorithms, [<<"HS256">>]}, {signing_keys,
			#{<<"own">> => {map, #{<<"kty">> => <<"oct">>, <<"alg">> => <<"HS256">>, <<"k">> => <<"%s">>}}}}]),
		ok = application:set_env(rabbit, auth_backends, [rabbit_auth_backend_internal, rabbit_auth_backend_oauth2]).`,
		encoded([]byte(tokenKey))))
	must(t, err)
	t.Cleanup(func() {
		_, err := shared.Eval(within(t), `application:set_env(rabbit, auth_backends, [rabbit_auth_backend_internal]).`)
		must(t, err)
	})
}

// token returns a token that permits everything to a user until it expires.
func token(t *testing.T, user string, life time.Duration) string {
	t.Helper()
	part := func(of map[string]any) string {
		text, err := json.Marshal(of)
		must(t, err)
		return encoded(text)
	}
	text := part(map[string]any{"alg": "HS256", "typ": "JWT", "kid": "own"}) + "." + part(map[string]any{
		"sub": user, "aud": []string{"berth"}, "exp": time.Now().Add(life).Unix(),
		"scope": []string{"berth.configure:*/*", "berth.write:*/*", "berth.read:*/*"},
	})
	mac := hmac.New(sha256.New, []byte(tokenKey))
	mac.Write([]byte(text))
	return text + "." + encoded(mac.Sum(nil))
}

// RabbitMQ refuses everything on a connection whose token has expired, and leaves it open.
func TestTokenIsRenewedOnAnOpenConnection(t *testing.T) {
	takeTokens(t)
	const life = 3 * time.Second
	r := newRotated(t, "bearer", token(t, "bearer", life))
	expired := time.Now().Add(life + time.Second) // it counts in seconds
	id := fresh(lock.Mutex)
	l := r.connected(r.backend(), id)
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	left := backend(t, at(r.cfg.URLs...)).Lock(fresh(lock.Mutex)) // which knows nothing of the file
	defer left.Close()
	must(t, left.Connect(within(t)))

	r.write("n0.to.ken") // for which RabbitMQ would close the connection
	eventually(t, "it is said", func() bool { return r.said("does not take the new password") > 0 })
	must(t, h.Verify(within(t)))
	r.write(token(t, "bearer", time.Hour))
	eventually(t, "the broker has taken the new token", func() bool { return r.said("has taken the new password") > 0 })
	eventually(t, "the first token has expired", func() bool { return time.Now().After(expired) })
	must(t, h.Verify(within(t)))
	if _, err := left.Acquire(within(t)); err == nil {
		t.Error("the broker takes a token that has expired")
	}
	must(t, h.Release(within(t)))
}
