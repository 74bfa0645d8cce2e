import { useSignal } from '@preact/signals';
import { checkSignIn, type SignInCheck, type SignInFinding } from '../../api/operations.ts';
import { Action } from '../../parts/action.tsx';
import { shellWord } from '../../parts/command.tsx';
import { Status, type Tone } from '../../parts/status.tsx';
import { MEANING, Request } from './request.tsx';

const TONES: Readonly<Record<SignInFinding['state'], Tone>> = { ok: 'good', warning: 'warn', failed: 'bad' };

/** Has the gateway ask what a sign-in would, and shows what it finds step by step. */
export function Check({ server, node }: { readonly server: string; readonly node: string | undefined }) {
  const found = useSignal<SignInCheck | null>(null);
  const check = found.value;
  return (
    <section aria-label="Check">
      <h2>What a sign-in needs</h2>
      <div class="actions">
        <Action
          label="Check step by step"
          command={`trunkline doctor ${shellWord(server)}`}
          node={node}
          run={() => checkSignIn({ name: server, node })}
          done="Checked"
          after={(answer) => {
            found.value = answer;
          }}
        />
      </div>
      {check === null ? (
        <p class="soft">
          The gateway fetches what the server and its authorization server publish. It registers nothing.
        </p>
      ) : (
        <>
          <p role="status">
            {check.ok ? 'No step fails before the browser opens.' : `A sign-in fails at ${check.steps.at(-1)?.step}.`}
          </p>
          <ol class="steps" aria-label="Checked steps">
            {check.steps.map((finding) => (
              <Finding key={finding.step} finding={finding} />
            ))}
          </ol>
        </>
      )}
    </section>
  );
}

function Finding({ finding: { step, state, text, fix, requests } }: { finding: SignInFinding }) {
  return (
    <li class="panel" aria-label={step}>
      <h3>
        <Status tone={TONES[state]} text={step} />
      </h3>
      <p class="soft">{MEANING[step]}</p>
      <p>{text}</p>
      {fix === null ? null : (
        <p>
          <b>To do:</b> {fix}
        </p>
      )}
      {requests.map((request, at) => (
        // Requests have no name but their place.
        <Request key={at} of={request} />
      ))}
    </li>
  );
}
