import { useSignal } from '@preact/signals';
import { replaced } from './api/request.ts';
import { Command } from './parts/command.tsx';
import { Failure } from './parts/notes.tsx';
import { enter, loggingIn, loginError } from './session.ts';

/** What a browser sees that is not logged in. */
export function Login() {
  const token = useSignal('');
  return (
    <main class="login">
      <h1>Trunkline</h1>
      {replaced.value ? (
        <p class="tone-warn" role="status">
          Another login, such as one at another port of this host, has ended that of this page: a browser has one for
          all ports.
        </p>
      ) : null}
      <p>This browser is not logged in. Print a link that logs it in, on the machine of the gateway:</p>
      <Command text="trunkline console" />
      {loginError.value === null ? null : <Failure what="The login failed" error={loginError.value} />}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void enter({ token: token.value.trim() });
        }}
      >
        <label>
          Or paste the control token (the file <code>control.token</code> of the data folder)
          <input
            type="password"
            name="token"
            autocomplete="off"
            required
            value={token.value}
            onInput={(event) => (token.value = event.currentTarget.value)}
          />
        </label>
        <button type="submit" disabled={loggingIn.value}>
          Log in
        </button>
      </form>
    </main>
  );
}
