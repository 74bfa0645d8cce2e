import { useSignal } from '@preact/signals';
import { Code, pretty } from '../../parts/code.tsx';
import { Status, type Tone } from '../../parts/status.tsx';
import { isObject, type JsonObject } from './exact-json.ts';
import type { PlayedRun, PlayedStep } from './play.ts';

const OUTCOMES: Readonly<Record<string, readonly [Tone, string]>> = {
  RESULT: ['good', 'The server answered'],
  NOT_SENT: ['bad', 'The call did not reach the server; it may be repeated'],
  UNKNOWN: ['warn', 'The call was sent and has no answer: it may have had its effect'],
  REFUSED: ['bad', 'The gateway refused the call'],
  CANCELLED: ['rest', 'The call was cancelled'],
};

/** How a call ended, and what came back. */
export function AnswerView({ run }: { readonly run: PlayedRun }) {
  const end = run.end.value;
  const answer = run.answer.value;
  if (end === null) return null;
  const failed = end.outcome === 'RESULT' && answer?.result?.['isError'] === true;
  const [tone, words] = OUTCOMES[end.outcome] ?? ['bad', end.outcome];
  const isError = end.outcome === 'RESULT' && answer?.error !== undefined;
  const shownTone = failed || isError ? 'warn' : tone;
  return (
    <section class="panel" aria-label="Answer" role="status">
      <p>
        <Status tone={shownTone} text={end.outcome} /> {words}
        {failed ? ', and the tool says that it failed' : isError ? ' with an error' : ''}.{' '}
        {end.reason === null ? null : `${end.reason}. `}
        <span class="soft">(took {end.ms} ms)</span>
      </p>
      {answer?.error === undefined ? null : (
        <div class="note tone-bad">
          <h3>
            Error {answer.error.code}: {answer.error.message}
          </h3>
          {answer.error.data === undefined ? null : <pre>{JSON.stringify(answer.error.data, null, 2)}</pre>}
        </div>
      )}
      {answer?.result === undefined ? null : <ResultView result={answer.result} />}
    </section>
  );
}

function ResultView({ result }: { readonly result: JsonObject }) {
  const {
    content,
    contents,
    messages,
    structuredContent,
    resultType: _,
    _meta: __,
    isError: ___,
    ...others
  } = result as Record<string, unknown>;
  const parts = [content, contents].flatMap((list) => (Array.isArray(list) ? (list as unknown[]) : []));
  const spoken = (Array.isArray(messages) ? (messages as unknown[]) : []).map((one) => (isObject(one) ? one : {}));
  return (
    <>
      {parts.map((part, i) => (
        <Part key={i} part={part} />
      ))}
      {spoken.map((message, i) => (
        <figure key={i} class="spoken">
          <figcaption class="soft">{String(message['role'])}</figcaption>
          <Part part={message['content']} />
        </figure>
      ))}
      {structuredContent === undefined ? null : (
        <>
          <h3>Structured content</h3>
          <Value value={structuredContent} />
        </>
      )}
      {Object.keys(others).length === 0 ? null : <Value value={others} />}
    </>
  );
}

const IMAGES = /^image\/(?:png|jpeg|gif|webp|svg\+xml|avif)$/;

function Part({ part }: { readonly part: unknown }) {
  if (!isObject(part)) return <Value value={part} />;
  const { type, text, data, mimeType, uri, name, resource, blob } = part as Record<string, string | undefined> & {
    readonly resource?: JsonObject;
  };
  if (type === 'resource' && isObject(resource)) return <Part part={resource} />;
  if (type === 'image' && IMAGES.test(mimeType ?? ''))
    return <img class="answer-image" src={`data:${mimeType};base64,${data}`} alt={`Of the answer, ${mimeType}`} />;
  if (type === 'audio') {
    // biome-ignore lint/a11y/useMediaCaption: a server sends none
    return <audio controls src={`data:${mimeType};base64,${data}`} />;
  }
  if (type === 'resource_link')
    return (
      <p>
        Link to a resource: <code>{uri}</code> {name}
      </p>
    );
  return (
    <>
      {uri === undefined ? null : (
        <p class="soft">
          <code>{uri}</code> {mimeType}
        </p>
      )}
      {typeof text === 'string' ? (
        <Code>{pretty(text)}</Code>
      ) : typeof blob === 'string' ? (
        <p class="soft">{Math.floor((blob.length * 3) / 4)} bytes, not text</p>
      ) : (
        <Value value={part} />
      )}
    </>
  );
}

function Value({ value }: { readonly value: unknown }) {
  return <Code>{JSON.stringify(value, null, 2)}</Code>;
}

/** Every message of the call's wire, in order. */
export function WireView({ run }: { readonly run: PlayedRun }) {
  const open = useSignal(false);
  const steps = run.steps.value.filter(({ sent, received }) => sent !== undefined || received !== undefined);
  if (steps.length === 0) return null;
  return (
    <details class="panel" open={open.value} onToggle={({ currentTarget }) => (open.value = currentTarget.open)}>
      <summary>The wire: {steps.length} messages</summary>
      {open.value ? (
        <ol class="wire">
          {steps.map((step, i) => (
            <WireStep key={i} step={step} />
          ))}
        </ol>
      ) : null}
    </details>
  );
}

function WireStep({ step: { ms, sent, received } }: { readonly step: PlayedStep }) {
  const message = sent ?? received!;
  return (
    <li>
      <span class="soft">
        {ms} ms {sent === undefined ? '← gateway' : '→ gateway'}{' '}
        {message.method ?? (message.error === undefined ? 'result' : 'error')}
      </span>
      <Code>{JSON.stringify(message, null, 2)}</Code>
    </li>
  );
}
