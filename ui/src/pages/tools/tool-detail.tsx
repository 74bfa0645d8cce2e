import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { type ClientView, listClientTools, type Tool } from '../../api/operations.ts';
import { Command, shellWord } from '../../parts/command.tsx';
import { Failure, Loading } from '../../parts/notes.tsx';
import { Status } from '../../parts/status.tsx';
import { href } from '../../router.ts';
import { definitionOf, thousands } from './catalog.ts';
import { SchemaView } from './schema-view.tsx';

/** All of one tool: names, costs, schema, and what clients make of it. */
export function ToolDetail({ tool, gatewayName }: { readonly tool: Tool; readonly gatewayName: string }) {
  const { title, description, inputSchema = {}, outputSchema, annotations } = definitionOf(tool);
  const hints = Object.entries(annotations ?? {}).filter(([, value]) => typeof value === 'boolean');
  return (
    <article class="panel tool-detail" aria-label={`Tool ${tool.name}`}>
      <h2>{title ?? tool.name}</h2>
      <p class="tool-links">
        <a class="button" href={href(['playground'], { server: tool.server, tool: tool.name })}>
          Open in the playground
        </a>
        <Command text={`trunkline tools ${shellWord(tool.server)}`} />
      </p>
      {description === undefined ? null : <p class="tool-words">{description}</p>}
      <dl class="facts">
        <dt>Own name</dt>
        <dd>
          <code>{tool.name}</code> of {tool.server}
        </dd>
        <dt>Exposed as</dt>
        <dd>
          <code>{tool.exposedName}</code> ({tool.exposedName.length} characters)
          {tool.renamed === null ? null : <div class="soft">Another name, because it {reason(tool.renamed)}</div>}
        </dd>
        <dt>Cost</dt>
        <dd title="An estimate: a quarter of the bytes of the definition as it is sent">
          about {thousands(tool.tokens)} tokens ({thousands(tool.bytes)} bytes)
        </dd>
        <dt>Last used</dt>
        <dd>{tool.lastUsed === null ? 'not in the calls that are kept' : new Date(tool.lastUsed).toLocaleString()}</dd>
        {hints.length === 0 ? null : (
          <>
            <dt>Hints of the server</dt>
            <dd>{hints.map(([name, value]) => `${name}: ${value}`).join(', ')}</dd>
          </>
        )}
      </dl>
      <SchemaView title="Arguments" schema={inputSchema} />
      {outputSchema === undefined ? null : <SchemaView title="Structured result" schema={outputSchema} />}
      <ClientNames tool={tool} gatewayName={gatewayName} />
    </article>
  );
}

function reason(text: string): string {
  return /^(has|would|cannot)/.test(text) ? text : `is ${text}`;
}

const FATES = {
  dropped: ['bad', 'left out: too long'],
  refused: ['bad', 'the model’s API refuses it: too long'],
  shortened: ['warn', 'shortened'],
} as const;

function ClientNames({ tool, gatewayName }: { readonly tool: Tool; readonly gatewayName: string }) {
  const views = useSignal<readonly ClientView[] | null>(null);
  const failed = useSignal<Error | null>(null);
  useEffect(() => {
    views.value = null;
    failed.value = null;
    listClientTools({ tool: tool.exposedName, gateway: gatewayName }).then(
      ({ clients }) => (views.value = clients),
      (error: Error) => (failed.value = error),
    );
  }, [tool.exposedName, gatewayName]);
  return (
    <section>
      <h3>What each client sees</h3>
      {failed.value !== null ? <Failure what="The names could not be read" error={failed.value} /> : null}
      {views.value === null ? (
        failed.value === null ? (
          <Loading what="names" />
        ) : null
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard
        <section class="scrolls" tabIndex={0} aria-label="What each client sees">
          <table class="names">
            <thead>
              <tr>
                <th scope="col">Client</th>
                <th scope="col">Name that its model gets</th>
                <th scope="col">Length</th>
                <th scope="col">Definition</th>
              </tr>
            </thead>
            <tbody>
              {views.value.map(({ client, title, limit, deferred, tools: [own] }) => (
                <tr key={client}>
                  <th scope="row">{title}</th>
                  <td>
                    <code>{own?.shown}</code>
                  </td>
                  <td>
                    {own?.length}/{limit}{' '}
                    {own?.beyond == null ? null : <Status tone={FATES[own.beyond][0]} text={FATES[own.beyond][1]} />}
                  </td>
                  <td>{deferred ? 'sent when searched for' : 'always sent'}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </section>
  );
}
