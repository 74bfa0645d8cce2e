import {
  attemptCarrier,
  attemptEnding,
  type CallSpan,
  callName,
  callSpans,
  duration,
  outcomeLabel,
} from '../../../../src/model/call-labels.ts';
import type { Call } from '../../api/operations.ts';
import { Command } from '../../parts/command.tsx';
import { Status, type Tone } from '../../parts/status.tsx';
import { href } from '../../router.ts';

export function toneOfCall({ outcome, error }: Call): Tone {
  if (error === null) return 'good';
  return outcome === 'RESULT' ? 'warn' : 'bad';
}

/** One call: where its time went on both sides of the gateway, and everything that is known of it. */
export function CallDetail({ call, onClose }: { readonly call: Call; readonly onClose: () => void }) {
  const facts: readonly (readonly [string, string | null])[] = [
    ['Asked for', call.asked === undefined ? null : `${call.asked} (unknown)`],
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
        <Status tone={toneOfCall(call)} text={outcomeLabel(call)} />
        <span class="grow" />
        <button type="button" class="plain" onClick={onClose}>
          Close
        </button>
      </header>
      <ol class="spans">
        {callSpans(call).map((span) => (
          <Span key={span.label} span={span} of={call.ms} />
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

function Span({ span, of }: { readonly span: CallSpan; readonly of: number }) {
  const { label, from, to, attempt } = span;
  const share = (value: number): number => (of === 0 ? 0 : (value / of) * 100);
  const failed = attempt !== undefined && attempt.outcome !== 'RESULT';
  return (
    <li>
      <span class="span-label">
        {[label, attempt === undefined ? '' : attemptCarrier(attempt)].filter(Boolean).join(', ')}
        {attempt === undefined ? null : (
          <span class="span-note soft">
            began after {duration(from)}, {attemptEnding(attempt)}
          </span>
        )}
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
