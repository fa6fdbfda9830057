use std::collections::VecDeque;
use std::future;
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;

use futures_util::future::BoxFuture;
use lathe_protocol::web::PageRoute;

use super::*;
use crate::web_tools::actions::{SideAnswer, SideFailure, SideQuestion};
use crate::web_tools::state::{HostResolver, WebLimits};

/// A web of prepared replies, which notes what was asked of it.
#[derive(Default)]
struct FakeWeb {
    replies: Mutex<VecDeque<PageReply>>,
    asked: Mutex<Vec<(String, PageRoute)>>,
    named: Mutex<Vec<&'static str>>,
    has_proxy: bool,
    hangs: bool,
}

impl FakeWeb {
    fn new(replies: impl IntoIterator<Item = PageReply>) -> Self {
        Self { replies: Mutex::new(replies.into_iter().collect()), ..Self::default() }
    }

    fn naming(self, hosts: &[&'static str]) -> Self {
        self.named.lock().unwrap().extend(hosts);
        self
    }

    fn urls(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(url, _)| url.clone()).collect()
    }
}

impl WebActions for FakeWeb {
    fn uses_proxy(&self, _: &str) -> bool {
        self.has_proxy
    }

    fn get_page<'a>(&'a self, get: PageGet<'a>) -> BoxFuture<'a, Result<PageReply, WebError>> {
        self.asked.lock().unwrap().push((get.url.to_owned(), get.route.clone()));
        if self.hangs {
            return Box::pin(future::pending());
        }
        let reply = self.replies.lock().unwrap().pop_front();
        Box::pin(future::ready(reply.ok_or_else(|| WebError::Failed("no more replies".to_owned()))))
    }

    fn names_host(&self, host: &str) -> bool {
        self.named.lock().unwrap().contains(&host)
    }

    fn ask_side_question(&self, _: SideQuestion) -> BoxFuture<'_, Result<SideAnswer, SideFailure>> {
        Box::pin(future::ready(Ok(SideAnswer::default())))
    }
}

/// Gives one of these lists after the other; the last one again and again.
struct FakeResolver(Mutex<VecDeque<&'static [&'static str]>>);

impl HostResolver for FakeResolver {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let mut lists = self.0.lock().unwrap();
        let list = if lists.len() > 1 { lists.pop_front() } else { lists.front().copied() };
        let found = match list {
            Some(list) => Ok(list.iter().map(|address| address.parse().unwrap()).collect()),
            None => Err(io::Error::other("no look-ups here")),
        };
        Box::pin(future::ready(found))
    }
}

const PUBLIC: &[&str] = &["93.184.216.34"];

fn state(lists: &[&'static [&'static str]]) -> WebState {
    WebState::default().with_resolver(Arc::new(FakeResolver(Mutex::new(lists.iter().copied().collect()))))
}

fn page(body: &str) -> PageReply {
    let content_type = Some("text/plain".to_owned());
    PageReply {
        status: 200,
        status_text: "OK".to_owned(),
        content_type,
        body: body.into(),
        ..PageReply::default()
    }
}

fn redirect(location: &str) -> PageReply {
    PageReply {
        status: 302,
        status_text: "Found".to_owned(),
        location: Some(location.to_owned()),
        ..PageReply::default()
    }
}

async fn get(url: &str, web: &FakeWeb, state: &WebState) -> Result<Fetched, FetchError> {
    fetch(&Url::parse(url).unwrap(), web, state, &CancellationToken::new()).await
}

fn text(fetched: Result<Fetched, FetchError>) -> String {
    match fetched {
        Ok(Fetched::Page(page)) => page.text.clone(),
        other => panic!("no page: {other:?}"),
    }
}

fn is_refused(fetched: &Result<Fetched, FetchError>) -> bool {
    matches!(fetched, Err(FetchError::Reach(ReachError::Internal { .. })))
}

#[tokio::test]
async fn internal_hosts_are_refused_in_every_spelling() {
    for url in [
        "http://localhost:9200/",
        "http://LOCALHOST./",
        "http://db/",
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://0.0.0.0/",
        "http://10.0.0.5/",
        "http://169.254.169.254/latest/meta-data/",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[fe80::1]/",
        "http://[fd00::1]/",
        "http://metadata.google.internal/",
        "http://x.localhost/",
    ] {
        let web = FakeWeb::new([page("secret")]);
        assert!(is_refused(&get(url, &web, &state(&[PUBLIC])).await), "{url}");
        assert!(web.urls().is_empty(), "{url} was asked");
        let behind_proxy = FakeWeb { has_proxy: true, ..FakeWeb::new([page("secret")]) };
        assert!(is_refused(&get(url, &behind_proxy, &state(&[])).await), "{url} behind a proxy");
        assert!(behind_proxy.urls().is_empty(), "{url} was asked behind a proxy");
    }
}

#[tokio::test]
async fn a_rule_that_names_the_host_opens_it_with_http() {
    for (url, host) in [
        ("http://localhost:9200/a", "localhost"),
        ("http://127.0.0.1:8080/", "127.0.0.1"),
        ("http://[::1]:8080/", "[::1]"),
    ] {
        let web = FakeWeb::new([page("inside")]).naming(&[host]);
        assert_eq!(text(get(url, &web, &state(&[&["127.0.0.1"]])).await), "inside");
        assert_eq!(web.urls(), [url]);
    }
    // The rule is about a host, and not about where it leads.
    let web = FakeWeb::new([page("inside")]).naming(&["127.0.0.1"]);
    assert!(is_refused(&get("http://localhost/", &web, &state(&[&["127.0.0.1"]])).await));
}

#[tokio::test]
async fn other_hosts_are_asked_with_https() {
    for (url, asked) in [
        ("http://example.com/a?b", "https://example.com/a?b"),
        ("http://example.com:8080/", "https://example.com:8080/"),
        ("https://example.com/", "https://example.com/"),
        ("http://8.8.8.8/", "https://8.8.8.8/"),
    ] {
        // A rule that names a host does not make it internal.
        let web = FakeWeb::new([page("outside")]).naming(&["example.com"]);
        assert_eq!(text(get(url, &web, &state(&[PUBLIC])).await), "outside");
        assert_eq!(web.urls(), [asked]);
    }
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused() {
    for addresses in [&["10.0.0.5"] as &[&str], &["93.184.216.34", "127.0.0.1"], &["::ffff:169.254.169.254"]]
    {
        let addresses: &'static [&'static str] = Box::leak(addresses.to_vec().into_boxed_slice());
        let web = FakeWeb::new([page("secret")]);
        assert!(is_refused(&get("https://evil.example/", &web, &state(&[addresses])).await), "{addresses:?}");
        assert!(web.urls().is_empty());
        let named = FakeWeb::new([page("inside")]).naming(&["evil.example"]);
        assert_eq!(text(get("http://evil.example/", &named, &state(&[addresses])).await), "inside");
        assert_eq!(named.urls(), ["http://evil.example/"], "an internal host keeps http");
    }
}

#[tokio::test]
async fn the_connection_goes_to_the_address_that_was_judged() {
    let web = FakeWeb::new([page("outside")]);
    let state = state(&[PUBLIC, &["127.0.0.1"]]);
    assert_eq!(text(get("https://rebind.example/", &web, &state).await), "outside");
    let asked = web.asked.lock().unwrap().clone();
    let judged = PageRoute::Direct(vec!["93.184.216.34".parse().unwrap()]);
    assert_eq!(asked, [("https://rebind.example/".to_owned(), judged)]);
}

#[tokio::test]
async fn every_hop_is_judged_anew() {
    let web = FakeWeb::new([redirect("/b"), page("secret")]);
    let state = state(&[PUBLIC, &["127.0.0.1"]]);
    assert!(is_refused(&get("https://rebind.example/a", &web, &state).await));
    assert_eq!(web.urls(), ["https://rebind.example/a"]);
}

#[tokio::test]
async fn behind_a_proxy_names_are_not_looked_up() {
    let web = FakeWeb { has_proxy: true, ..FakeWeb::new([page("outside")]) };
    assert_eq!(text(get("http://example.com/", &web, &state(&[])).await), "outside");
    assert_eq!(*web.asked.lock().unwrap(), [("https://example.com/".to_owned(), PageRoute::Proxy)]);
}

#[tokio::test]
async fn a_host_without_an_address_is_an_error() {
    let web = FakeWeb::new([page("")]);
    for lists in [&[] as &[&[&str]], &[&[]]] {
        let error = get("https://example.com/", &web, &state(lists)).await.unwrap_err();
        assert!(matches!(error, FetchError::Reach(ReachError::Unresolved { .. })), "{error:?}");
    }
    assert!(web.urls().is_empty());
}

#[tokio::test]
async fn redirects_inside_of_a_host_are_followed() {
    let web = FakeWeb::new([redirect("/b"), redirect("http://example.com/c#d"), page("found")]);
    assert_eq!(text(get("http://example.com/a", &web, &state(&[PUBLIC])).await), "found");
    let urls = ["https://example.com/a", "https://example.com/b", "https://example.com/c#d"];
    assert_eq!(web.urls(), urls);
    let endless = FakeWeb::new((0..50).map(|number| redirect(&format!("/{number}"))));
    let outcome = get("https://example.com/", &endless, &state(&[PUBLIC])).await;
    assert_eq!(outcome, Err(FetchError::TooManyRedirects));
    assert_eq!(endless.urls().len(), MAX_REDIRECTS + 1);
}

#[tokio::test]
async fn redirects_to_other_places_are_returned() {
    for to in [
        "https://other.example/x",
        "https://example.com.evil.example/",
        "https://example.com:8443/",
        "https://user:word@example.com/",
        "http://127.0.0.1/",
        "ftp://example.com/",
    ] {
        let web = FakeWeb::new([redirect(to), page("secret")]);
        let fetched = get("https://example.com/", &web, &state(&[PUBLIC])).await;
        let status_text = "Found".to_owned();
        assert_eq!(fetched, Ok(Fetched::ElsewhereAt { status: 302, status_text, url: to.to_owned() }));
        assert_eq!(web.urls().len(), 1);
    }
    let web = FakeWeb::new([redirect("https://[bad/")]);
    let fetched = get("https://example.com/", &web, &state(&[PUBLIC])).await;
    assert_eq!(fetched, Err(FetchError::BadRedirect));
}

#[tokio::test]
async fn errors_of_the_server_are_no_pages() {
    for status in [304, 404, 500] {
        let web = FakeWeb::new([PageReply { status, body: b"x".to_vec(), ..PageReply::default() }]);
        let fetched = get("https://example.com/", &web, &state(&[PUBLIC])).await;
        assert_eq!(fetched, Ok(Fetched::Refused { status, status_text: String::new() }));
    }
    let web = FakeWeb::new([PageReply { is_cut: true, ..page("x") }]);
    let fetched = get("https://example.com/", &web, &state(&[PUBLIC])).await;
    assert_eq!(fetched, Err(FetchError::Body(BodyError::TooLarge)));
    let fetched = get("https://example.com/", &FakeWeb::default(), &state(&[PUBLIC])).await;
    assert_eq!(fetched, Err(FetchError::Web(WebError::Failed("no more replies".to_owned()))));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up() {
    let web = FakeWeb { hangs: true, ..FakeWeb::default() };
    let began = Instant::now();
    let fetched = get("https://example.com/", &web, &state(&[PUBLIC])).await;
    assert_eq!(fetched, Err(FetchError::TimedOut));
    assert_eq!(began.elapsed(), MAX_TIME);
}

#[tokio::test]
async fn a_cancelled_fetch_ends_at_once() {
    let web = FakeWeb { hangs: true, ..FakeWeb::default() };
    let (state, cancel) = (state(&[PUBLIC]), CancellationToken::new());
    let url = Url::parse("https://example.com/").unwrap();
    let (fetched, ()) = tokio::join!(fetch(&url, &web, &state, &cancel), async { cancel.cancel() });
    assert_eq!(fetched, Err(FetchError::Cancelled));
}

#[tokio::test]
async fn pages_are_taken_from_the_cache_while_their_rule_holds() {
    let web = FakeWeb::new([page("first"), page("second")]).naming(&["localhost"]);
    let state = state(&[&["127.0.0.1"]]);
    for _ in 0..2 {
        assert_eq!(text(get("http://localhost/", &web, &state).await), "first");
    }
    assert_eq!(web.urls().len(), 1);
    web.named.lock().unwrap().clear();
    assert!(is_refused(&get("http://localhost/", &web, &state).await));
    let off = WebState::new(WebLimits { cache_time: Duration::ZERO, ..WebLimits::default() });
    let web = FakeWeb::new([page("first"), page("second")]).naming(&["127.0.0.1"]);
    for expected in ["first", "second"] {
        assert_eq!(text(get("http://127.0.0.1/", &web, &off).await), expected);
    }
}
