import { getSignIn, type SignInStep } from '../api/operations.ts';
import { NodeChoice } from '../parts/node-choice.tsx';
import { Empty, Unread } from '../parts/notes.tsx';
import { ago, useReading } from '../parts/reading.ts';
import { SignInButton } from '../parts/sign-in-button.tsx';
import { Status } from '../parts/status.tsx';
import { href, route } from '../router.ts';
import { nodesOf, serverList, servers, serversReader } from '../servers.ts';
import { Check } from './sign-in/check.tsx';
import { MEANING, Request } from './sign-in/request.tsx';

export default function SignInDebugger() {
  const [server] = route.value.rest;
  return (
    <>
      <h1>{server === undefined ? 'Sign-in' : `Sign-in at ${server}`}</h1>
      {server === undefined ? (
        <Choice />
      ) : (
        <>
          <NodeChoice among={nodesOf(server)} />
          <Steps server={server} />
        </>
      )}
    </>
  );
}

function Choice() {
  if (servers.value === null) return <Unread of={serversReader} what="servers" />;
  const remote = serverList.value.filter(({ endpoint }) => endpoint !== null);
  if (remote.length === 0) {
    return (
      <Empty title="No server is behind a URL">
        <p>Only such servers ask for a sign-in.</p>
      </Empty>
    );
  }
  return (
    <ul class="panel plain-list">
      {remote.map(({ name, state, endpoint }) => (
        <li key={name}>
          <a href={href(['sign-in', name])}>{name}</a> <span class="soft">{endpoint}</span>{' '}
          {state === 'auth_required' ? <Status tone="warn" text="asks for a sign-in" /> : null}
        </li>
      ))}
    </ul>
  );
}

function Steps({ server }: { server: string }) {
  const node = route.value.query.get('node') ?? undefined;
  const found = useReading(() => getSignIn({ name: server, node }), `${server} ${node}`, {
    events: ['login', 'login_ended', 'state', 'replaced', 'removed'],
  });
  if (found.value.value === null) return <Unread of={found} what="sign-in" />;
  const { possible, reason, auth, credentials, steps } = found.value.value;
  const challenge = servers.value?.get(server)?.authChallenge ?? null;
  return (
    <>
      <p>
        <a href={href(['sign-in'])}>All servers</a> · <a href={href(['connections'])}>Connections</a>
      </p>
      <section class="panel" aria-label="Definition">
        {reason === null ? null : <p>No user can sign in here: {reason}.</p>}
        {auth === null ? null : (
          <dl class="facts">
            <dt>Grant</dt>
            <dd>{auth.grant}</dd>
            <dt>Client</dt>
            <dd>{auth.clientId ?? 'registered when it is needed'}</dd>
            <dt>Scopes</dt>
            <dd>{auth.scopes?.join(' ') ?? 'as the server asks'}</dd>
            <dt>Issuer</dt>
            <dd>{auth.issuer ?? 'as the server says'}</dd>
            <dt>Credentials</dt>
            <dd>
              {credentials.length === 0
                ? 'none'
                : credentials.map(({ principal, state }) => `${principal ?? 'shared'}: ${state}`).join(', ')}
              {auth.per === 'principal' ? ' (each caller has its own)' : ''}
            </dd>
            {challenge === null ? null : (
              <>
                <dt>Asks for</dt>
                <dd>
                  {Object.entries(challenge)
                    .filter(([, value]) => value !== null)
                    .map(([name, value]) => `${name} ${value}`)
                    .join(', ') || 'credentials'}
                </dd>
              </>
            )}
          </dl>
        )}
      </section>
      {possible ? (
        <div class="actions">
          <SignInButton server={server} principal={null} label="Sign in" after={found.again} />
        </div>
      ) : null}
      {auth === null ? null : <Check key={`${server} ${node}`} server={server} node={node} />}
      <h2>The last sign-in</h2>
      {steps.length === 0 ? (
        <Empty title="No sign-in was seen">
          <p>
            The steps of the last sign-in are kept in memory since the start of this gateway. <b>Sign in</b> makes some.
          </p>
        </Empty>
      ) : (
        <ol class="steps" aria-label="Steps">
          {steps.map((step, at) => (
            // Steps have no name but their place.
            <Step key={at} step={step} />
          ))}
        </ol>
      )}
    </>
  );
}

function Step({ step }: { step: SignInStep }) {
  return (
    <li class="panel">
      <h3>
        <Status tone={step.problem === null ? 'good' : 'bad'} text={step.step} />{' '}
        <span class="soft">{ago(step.at)}</span>
      </h3>
      <p class="soft">{MEANING[step.step]}</p>
      <Request of={step} />
    </li>
  );
}
