import './style.css';
import { effect } from '@preact/signals';
import { render } from 'preact';
import { App } from './app.tsx';
import { startLive } from './live.ts';
import { followServers } from './servers.ts';
import { beginLogin } from './session.ts';
import { startTheme } from './theme.ts';

startTheme();
followServers();
startLive();
effect(() => void beginLogin());
render(<App />, document.getElementById('app')!);
