import { counted } from '../../../src/model/counted.ts';
import {
  type Configuration as ConfigurationFacts,
  type ConfigurationProblem,
  type ConfigurationRecord,
  getConfiguration,
  planConfiguration,
  reloadConfiguration,
} from '../api/operations.ts';
import { Action } from '../parts/action.tsx';
import { Command } from '../parts/command.tsx';
import { NodeChoice } from '../parts/node-choice.tsx';
import { Unread } from '../parts/notes.tsx';
import { ago, type Follows, useReading } from '../parts/reading.ts';
import { Status, type Tone } from '../parts/status.tsx';
import { href, route } from '../router.ts';
import './operating.css';

const FOLLOWED: Follows = { lists: ['configuration'], events: ['added', 'replaced', 'removed'] };
const RESULTS: Readonly<Record<ConfigurationRecord['result'], Tone>> = {
  started: 'rest',
  applied: 'good',
  refused: 'bad',
};

export default function Configuration() {
  const node = route.value.query.get('node') ?? undefined;
  const found = useReading(() => getConfiguration({ node }), node ?? '', FOLLOWED);
  if (found.value.value === null) return <Unread of={found} what="configuration" />;
  const { version, problems, warnings, unread, history } = found.value.value;
  return (
    <>
      <h1>Configuration</h1>
      <p>
        Version {version} is in force. <Command text="trunkline check" node={node} />
      </p>
      <NodeChoice />
      <div class="actions">
        <Action
          label="Reload now"
          command="trunkline reload"
          node={node}
          run={async () => {
            const reloaded = await reloadConfiguration({ node });
            if (reloaded.result !== 'refused') return reloaded;
            throw new Error(`Refused; version ${reloaded.version} stays in force`);
          }}
          done={({ result, version: now }) =>
            result === 'applied' ? `Applied as version ${now}` : 'Nothing has changed'
          }
          after={found.again}
        />
      </div>
      {unread.map((text) => (
        <p key={text} class="note tone-bad">
          <span>{text}</span>
        </p>
      ))}
      <Problems title="Problems" problems={problems} tone="bad" />
      <Problems title="Warnings" problems={warnings} tone="warn" />
      <Plan key={`${node} ${history[0]?.at}`} node={node} />
      <Sources facts={found.value.value} />
      <section class="panel" aria-label="History">
        <h2>History</h2>
        <ol class="plain-list">
          {history.map((record, at) => (
            // The newest has the first place.
            <Record key={history.length - at} record={record} />
          ))}
        </ol>
      </section>
    </>
  );
}

interface ProblemsProps {
  readonly title: string;
  readonly problems: readonly ConfigurationProblem[];
  readonly tone: Tone;
}

function Problems({ title, problems, tone }: ProblemsProps) {
  if (problems.length === 0) return null;
  return (
    <section class="panel" aria-label={title}>
      <h2>{title}</h2>
      {problems.map(({ code, file, line, column, message, frame, fix }) => (
        <article key={`${code} ${file} ${line} ${column}`}>
          <h3>
            <Status tone={tone} text={code} />{' '}
            <code>
              {file}
              {line === 0 ? '' : `:${line}:${column}`}
            </code>
          </h3>
          <p>{message}</p>
          {frame === '' ? null : <pre class="frame">{frame}</pre>}
          <p>Fix: {fix}</p>
        </article>
      ))}
    </section>
  );
}

/** What the files say against what is in force. */
function Plan({ node }: { node: string | undefined }) {
  const plan = useReading(() => planConfiguration({ node }), node ?? '', FOLLOWED);
  return (
    <section class="panel" aria-label="Plan">
      <h2>
        Plan: the files against what is in force <Command text="trunkline plan" node={node} />
      </h2>
      {plan.value.value === null ? (
        <Unread of={plan} what="plan" />
      ) : plan.value.value.servers.length + plan.value.value.settings.length === 0 ? (
        <p class="soft">
          {plan.value.value.problems.length === 0
            ? 'A reload would change nothing.'
            : 'A reload would change nothing: the parts with problems stay as they were before.'}
        </p>
      ) : (
        <Changes {...plan.value.value} />
      )}
    </section>
  );
}

interface ChangesProps extends Pick<ConfigurationRecord, 'servers' | 'settings'> {
  readonly needRestart?: readonly string[];
}

function Changes({ servers, settings, needRestart = [] }: ChangesProps) {
  return (
    <ul class="plain-list">
      {servers.map(({ server, change, fields }) => (
        <li key={server}>
          <strong>{change}</strong> <a href={href(['servers', server])}>{server}</a>
          {fields.length === 0 ? null : (
            <details open={change !== 'added' && change !== 'removed'}>
              <summary>{counted(fields.length, 'field')}</summary>
              <dl class="facts">
                {fields.map(({ field, before, after }) => (
                  <div key={field} class="field">
                    <dt>{field}</dt>
                    <dd>
                      {before === null ? null : <del>{before}</del>} {after === null ? null : <ins>{after}</ins>}
                    </dd>
                  </div>
                ))}
              </dl>
            </details>
          )}
        </li>
      ))}
      {settings.map((name) => (
        <li key={name}>
          <strong>changed</strong> <code>{name}</code>
          {needRestart.includes(name) ? ', in force after a restart only' : ''}
        </li>
      ))}
    </ul>
  );
}

function Sources({ facts: { sources, runTime } }: { facts: ConfigurationFacts }) {
  return (
    <section class="panel" aria-label="Sources">
      <h2>Sources</h2>
      {sources.map(({ file, servers }) => (
        <div key={file}>
          <h3>
            <code>{file || 'the command line'}</code>
          </h3>
          <ul class="plain-list">
            {servers.map(({ server, line }) => (
              <li key={server}>
                <a href={href(['servers', server])}>{server}</a>{' '}
                {line > 0 ? <span class="soft">line {line}</span> : null}
              </li>
            ))}
          </ul>
        </div>
      ))}
      {runTime.length === 0 ? null : (
        <>
          <h3>Added at run time</h3>
          <ul class="plain-list">
            {runTime.map((server) => (
              <li key={server}>
                <a href={href(['servers', server])}>{server}</a>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function Record({ record }: { record: ConfigurationRecord }) {
  const { at, result, version, servers, settings, problems } = record;
  return (
    <li>
      <Status tone={RESULTS[result]} text={result} /> version {version},{' '}
      <time datetime={at} title={at}>
        {ago(at)}
      </time>
      {servers.length + settings.length === 0 ? null : <Changes servers={servers} settings={settings} />}
      {problems.length === 0 ? null : (
        <p class="soft">{problems.map(({ code, message }) => `${code} ${message}`).join('; ')}</p>
      )}
    </li>
  );
}
