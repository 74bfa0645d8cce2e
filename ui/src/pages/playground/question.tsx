import { useSignal } from '@preact/signals';
import type { PlayQuestion } from '../../api/operations.ts';
import { Code } from '../../parts/code.tsx';
import { act } from '../../parts/toasts.tsx';
import { WebLink } from '../../parts/web-link.tsx';
import { isObject, type JsonObject, objectFault, parseExact } from './exact-json.ts';
import type { PlayedRun } from './play.ts';
import { type FormSchema, faultsOf, initialOf } from './schema.ts';
import { SchemaForm } from './schema-form.tsx';

interface QuestionProps {
  readonly run: PlayedRun;
  readonly question: PlayQuestion;
}

/** What a server asks the client, answered in its place. */
export function Question(props: QuestionProps) {
  const { method, params } = props.question;
  return (
    <section class="panel question" aria-label={`The server asks: ${method}`}>
      {method === 'elicitation/create' ? (
        params['mode'] === 'url' ? (
          <AtUrl {...props} />
        ) : (
          <AsForm {...props} />
        )
      ) : method === 'sampling/createMessage' ? (
        <Sampling {...props} />
      ) : (
        <AsJson {...props} />
      )}
    </section>
  );
}

function send(
  { run, question }: QuestionProps,
  answer: { readonly result: JsonObject } | { readonly error: JsonObject },
): void {
  void act('Answered', () => run.reply(question, answer));
}

function AsForm(props: QuestionProps) {
  const { params } = props.question;
  const schema = (params['requestedSchema'] ?? {}) as FormSchema;
  const value = useSignal((initialOf(schema, schema, true) ?? {}) as JsonObject);
  const tried = useSignal(false);
  const faults = faultsOf(value.value, schema, schema);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        tried.value = true;
        if (faults.length === 0) send(props, { result: { action: 'accept', content: value.value } });
      }}
    >
      <h2>The server asks for input</h2>
      <p>{String(params['message'] ?? '')}</p>
      <SchemaForm
        schema={schema}
        value={value.value}
        faults={tried.value ? faults : []}
        onChange={(next) => (value.value = next)}
      />
      <Refusals {...props}>
        <button type="submit">Send the answer</button>
      </Refusals>
    </form>
  );
}

function AtUrl(props: QuestionProps) {
  const { params } = props.question;
  const url = String(params['url'] ?? '');
  return (
    <>
      <h2>The server asks to open a page</h2>
      <p>{String(params['message'] ?? '')}</p>
      <p>
        <WebLink url={url} />
      </p>
      <Refusals {...props}>
        <button type="button" class="main" onClick={() => send(props, { result: { action: 'accept' } })}>
          I have opened it
        </button>
      </Refusals>
    </>
  );
}

function Refusals({ children, ...props }: QuestionProps & { readonly children: preact.ComponentChildren }) {
  return (
    <p class="toolbar">
      {children}
      <button type="button" onClick={() => send(props, { result: { action: 'decline' } })}>
        Decline
      </button>
      <button type="button" onClick={() => send(props, { result: { action: 'cancel' } })}>
        Dismiss
      </button>
    </p>
  );
}

function Sampling(props: QuestionProps) {
  const text = useSignal('');
  const { messages, systemPrompt } = props.question.params as JsonObject;
  const spoken = (Array.isArray(messages) ? (messages as unknown[]) : []).map((one) => (isObject(one) ? one : {}));
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const content = { type: 'text', text: text.value };
        send(props, { result: { role: 'assistant', model: 'a person', stopReason: 'endTurn', content } });
      }}
    >
      <h2>The server asks the model</h2>
      {typeof systemPrompt === 'string' ? <p class="soft">{systemPrompt}</p> : null}
      {spoken.map(({ role, content }, i) => (
        <figure key={i} class="spoken">
          <figcaption class="soft">{String(role)}</figcaption>
          <Code>
            {isObject(content) && typeof content['text'] === 'string'
              ? content['text']
              : String(JSON.stringify(content, null, 2))}
          </Code>
        </figure>
      ))}
      <label>
        Your answer in the place of the model
        <textarea rows={4} value={text.value} onInput={({ currentTarget }) => (text.value = currentTarget.value)} />
      </label>
      <p class="toolbar">
        <button type="submit">Send the answer</button>
        <button
          type="button"
          onClick={() => send(props, { error: { code: -1, message: 'User rejected sampling request' } })}
        >
          Refuse
        </button>
      </p>
    </form>
  );
}

function AsJson(props: QuestionProps) {
  const { method, params } = props.question;
  const text = useSignal(method === 'roots/list' ? '{"roots":[]}' : '{}');
  const fault = objectFault(text.value);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (fault === null) send(props, { result: parseExact(text.value) as JsonObject });
      }}
    >
      <h2>
        The server asks: <code>{method}</code>
      </h2>
      <Code>{JSON.stringify(params, null, 2)}</Code>
      <label>
        Result as JSON
        <textarea
          rows={4}
          spellcheck={false}
          value={text.value}
          onInput={({ currentTarget }) => (text.value = currentTarget.value)}
        />
      </label>
      {fault === null ? null : <p class="field-fault">{fault}</p>}
      <p class="toolbar">
        <button type="submit">Send the answer</button>
        <button type="button" onClick={() => send(props, { error: { code: -32601, message: 'Method not found' } })}>
          Refuse
        </button>
      </p>
    </form>
  );
}
