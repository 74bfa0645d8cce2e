import type { ComponentChildren } from 'preact';
import { attemptCarrier, attemptEnding, callName, duration, ending } from '../../../../src/model/call-words.ts';
import type { Call, CallAttempt } from '../../api/operations.ts';
import { Command } from '../../parts/command.tsx';
import { Status, type Tone } from '../../parts/status.tsx';
import { href } from '../../router.ts';

const WORTH_SHOWING_MS = 0.05;

export function toneOfCall({ outcome, error }: Call): Tone {
  if (error === null) return 'good';
  return outcome === 'RESULT' ? 'warn' : 'bad';
}

/** One call: where its time went on both sides of the gateway, and everything that is known of it. */
export function CallDetail({ call, onClose }: { readonly call: Call; readonly onClose: () => void }) {
  const here = call.node === null ? 'gateway' : `node ${call.node}`;
  const { waitedMs, ms, servedBy, tries, attempts = [] } = call;
  const crossed = servedBy === null ? '' : ` at node ${servedBy}`;
  const facts: readonly (readonly [string, string | null])[] = [
    ['Asked for', call.asked === undefined ? null : `${call.asked}, which leads to nothing of a server`],
    ['Method', call.method],
    ['Client', call.client],
    ['Principal', call.principal],
    ['Session', call.session],
    ['Revision', call.revision],
    ['Endpoint', call.endpoint],
    ['Sizes', `${call.requestBytes} bytes in, ${call.answerBytes} bytes out`],
    ['Node', call.node],
    ['Trace', call.trace],
    ['Request', `${call.request} in the log`],
    ['Why', call.reason],
  ];
  return (
    <section class="detail" aria-label={`Call ${callName(call)}`}>
      <header class="detail-head">
        <h2>{callName(call)}</h2>
        <Status tone={toneOfCall(call)} text={ending(call)} />
        <span class="grow" />
        <button type="button" class="plain" onClick={onClose}>
          Close
        </button>
      </header>
      <ol class="spans">
        <Span label={`${call.client ?? 'Client'} → ${here}`} from={0} to={ms} of={ms} />
        {waitedMs === null ? null : (
          <>
            {waitedMs < WORTH_SHOWING_MS ? null : (
              <Span label={`${here}: until it was sent`} from={0} to={waitedMs} of={ms} />
            )}
            <Span label={`${here} → ${call.server}${crossed}`} from={waitedMs} to={ms} of={ms} />
          </>
        )}
        {attempts.map((attempt, i) => (
          <Attempt key={attempt.atMs} number={Math.max(1, tries - attempts.length + 1) + i} attempt={attempt} of={ms} />
        ))}
      </ol>
      <dl class="facts">
        {facts.map(([name, value]) =>
          value === null ? null : (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
        )}
      </dl>
      <p>
        <Command text={`trunkline trace ${call.id}`} />
      </p>
      <p class="links">
        {call.server === null ? null : <a href={href(['servers', call.server])}>Server {call.server}</a>}
        {call.session === null ? null : <a href={href(['sessions', call.session])}>Session {call.session}</a>}
      </p>
    </section>
  );
}

function Attempt({ number, attempt, of }: { number: number; attempt: CallAttempt; of: number }) {
  const { atMs, ms, outcome } = attempt;
  const label = [`Attempt ${number}`, attemptCarrier(attempt)].filter(Boolean).join(', ');
  return (
    <Span label={label} from={atMs} to={atMs + ms} of={of} failed={outcome !== 'RESULT'}>
      <span class="span-note soft">
        began after {duration(atMs)}, {attemptEnding(attempt)}
      </span>
    </Span>
  );
}

interface SpanProps {
  readonly label: string;
  readonly from: number;
  readonly to: number;
  readonly of: number;
  readonly failed?: boolean;
  readonly children?: ComponentChildren;
}

function Span({ label, from, to, of, failed = false, children }: SpanProps) {
  const share = (value: number): number => (of === 0 ? 0 : (value / of) * 100);
  return (
    <li>
      <span class="span-label">
        {label}
        {children}
      </span>
      <span class="span-track" aria-hidden="true">
        <span
          class={failed ? 'span-bar failed' : 'span-bar'}
          style={{ left: `${share(from)}%`, width: `${Math.max(0.5, share(to - from))}%` }}
        />
      </span>
      <span class="span-time">{duration(to - from)}</span>
    </li>
  );
}
